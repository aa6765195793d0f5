package token

import (
	"bytes"
	"strings"
	"sync"

	"github.com/powerbox-project/powerbox"
)

// The types of our tokens and proofs, in the typ of their headers.
const (
	typeToken = "aat+jwt"
	typeProof = "aat-pop+jwt"
)

// What may be read before a signature is checked (draft, appendix B.5). The
// JSON depth leaves room for a constraint that is nested too deep, so that the
// refusal can say so.
const (
	MaxTokenBytes  = 64 << 10
	maxHeaderBytes = 4 << 10
	maxJSONDepth   = 160
)

type header struct {
	algorithm Algorithm
	drafts    draftSet // of tokens and proofs
	kid       string   // meaningful where hasKid
	hasKid    bool
}

// jws is a parsed JWS in compact form. Nothing in it is verified.
type jws struct {
	header    header
	payload   powerbox.Value
	signed    string // the signing input: header and payload as they came
	signature [64]byte
}

// parseJWS parses a compact JWS (RFC 7515 section 7.1) of that typ. One of
// another kind of token is refused (ATK-13).
func parseJWS(compact, typ string) (jws, error) {
	if len(compact) > MaxTokenBytes {
		return jws{}, refuse(CodeTooLarge, "has %d bytes; want at most %d", len(compact), MaxTokenBytes)
	}
	if err := checkParts(compact); err != nil {
		return jws{}, err
	}
	h, err := headerOf(compact, typ)
	if err != nil {
		return jws{}, err
	}
	return parseRest(compact, h)
}

// headerOf reads the header of a compact JWS that has its three parts.
func headerOf(compact, typ string) (header, error) {
	return readHeader(compact[:strings.IndexByte(compact, '.')], typ)
}

// parseRest parses signature and payload of a compact JWS whose header is h.
func parseRest(compact string, h header) (jws, error) {
	first := strings.IndexByte(compact, '.')
	last := first + 1 + strings.IndexByte(compact[first+1:], '.')
	// Before the payload, which is longer.
	var room [96]byte
	signature, err := appendDecoded(room[:0], compact[last+1:])
	if err != nil || len(signature) != 64 {
		return jws{}, refuse(CodeMalformed, "signature has %d bytes; want 64 in base64url without padding", len(signature))
	}
	payload, err := parsePart("payload", compact[first+1:last], powerbox.Limits{Bytes: MaxTokenBytes, Depth: maxJSONDepth})
	if err != nil {
		return jws{}, err
	}
	return jws{h, payload, compact[:last], [64]byte(signature)}, nil
}

// usualPart is more than most parts of a token have, in bytes. Up to it,
// bytes that are decoded or hashed and then dropped need no memory of their own.
const usualPart = 1 << 10

// The headers that sign writes where there is no kid, as they stand in a JWS.
// Nearly every token and proof has one of them.
const (
	linkHeaderEd25519  = "eyJhbGciOiJFZDI1NTE5IiwidHlwIjoiYWF0K2p3dCJ9"
	linkHeaderEdDSA    = "eyJhbGciOiJFZERTQSIsInR5cCI6ImFhdCtqd3QifQ"
	linkHeaderES256    = "eyJhbGciOiJFUzI1NiIsInR5cCI6ImFhdCtqd3QifQ"
	proofHeaderEd25519 = "eyJhbGciOiJFZDI1NTE5IiwidHlwIjoiYWF0LXBvcCtqd3QifQ"
	proofHeaderEdDSA   = "eyJhbGciOiJFZERTQSIsInR5cCI6ImFhdC1wb3Arand0In0"
	proofHeaderES256   = "eyJhbGciOiJFUzI1NiIsInR5cCI6ImFhdC1wb3Arand0In0"
)

// readHeader reads a header, by its bytes alone where it is a common one.
func readHeader(part, typ string) (header, error) {
	switch {
	case typ == typeToken && part == linkHeaderEd25519, typ == typeProof && part == proofHeaderEd25519:
		return header{algorithm: Ed25519, drafts: in02}, nil
	case typ == typeToken && part == linkHeaderEdDSA, typ == typeProof && part == proofHeaderEdDSA:
		return header{algorithm: Ed25519, drafts: in01}, nil
	case typ == typeToken && part == linkHeaderES256, typ == typeProof && part == proofHeaderES256:
		return header{algorithm: ES256, drafts: inBoth}, nil
	}
	head, err := parsePart("header", part, powerbox.Limits{Bytes: maxHeaderBytes, Depth: 16})
	if err != nil {
		return header{}, err
	}
	return parseHeader(head, typ)
}

func parsePart(name, part string, limits powerbox.Limits) (powerbox.Value, error) {
	var room [usualPart]byte
	if !mayBeObject(part) {
		return powerbox.Value{}, refusal(CodeMalformed, name+" is not a JSON object in base64url")
	}
	b, err := appendDecoded(room[:0], part)
	if err != nil {
		return powerbox.Value{}, refuse(CodeMalformed, "%s is not base64url without padding: %v", name, err)
	}
	v, err := powerbox.DecodeValue(b, limits)
	if err != nil {
		return powerbox.Value{}, refusal(CodeMalformed, name+": "+err.Error())
	}
	if v.Kind() != powerbox.KindObject {
		return powerbox.Value{}, refuse(CodeMalformed, "%s is JSON %s; want an object", name, v.Kind())
	}
	return v, nil
}

// mayBeObject looks at the first characters alone: what cannot be an object is
// refused before the rest is decoded.
func mayBeObject(part string) bool {
	if len(part) < 4 {
		return true
	}
	var first [3]byte
	var four [4]byte
	copy(four[:], part)
	n, err := jose.Decode(first[:], four[:])
	return err != nil || n == 0 || first[0] == '{' || first[0] == ' ' || first[0] == '\t' || first[0] == '\n' || first[0] == '\r'
}

// parseHeader reads alg, typ and kid, and nothing else that could choose a key
// (ATK-11, ATK-12, ATK-14). It refuses crit, since no extension is understood
// here.
func parseHeader(v powerbox.Value, typ string) (header, error) {
	if _, ok := v.Get("crit"); ok {
		return header{}, refuse(CodeMalformed, "header has crit, which is not supported")
	}
	alg, _ := v.Get("alg")
	name, _ := alg.Text()
	a, ok := headerAlgorithm(name)
	if !ok {
		return header{}, refuse(CodeAlgorithm, "header: alg is %s; want Ed25519, EdDSA or ES256", alg)
	}
	h := header{algorithm: a}
	kid, hasKid := v.Get("kid")
	if h.kid, h.hasKid = kid.Text(); typ != typeToken && typ != typeProof {
		return h, checkForeign(v, typ, hasKid && !h.hasKid)
	}
	var err error
	h.drafts, err = draftsOf(name, v, typ)
	return h, err
}

// checkForeign checks the header of a JWS that the token draft does not define, whose
// typ may be absent or "JWT". It refuses b64, which would change the signed bytes
// (RFC 7797); the token draft has us ignore it there.
func checkForeign(v powerbox.Value, typ string, noText bool) error {
	if _, ok := v.Get("b64"); ok {
		return refuse(CodeMalformed, "header has b64, which is not supported")
	}
	if t, ok := v.Get("typ"); ok {
		if name, _ := t.Text(); name != "JWT" && name != typ {
			return refuse(CodeType, "header: typ is %s; want %q, \"JWT\" or none", t, typ)
		}
	}
	if noText {
		return refuse(CodeMalformed, "header: kid is no string")
	}
	return nil
}

// inputs are for signing inputs as bytes, which a check would have Go allocate.
var inputs = sync.Pool{New: func() any { return new([usualPart]byte) }}

// verify checks the signature of j under key. The key decides the algorithm.
func (j jws) verify(key KeptKey) error {
	if j.header.algorithm != key.algorithm {
		return refuse(CodeAlgorithm, "header: alg is for %s; the key is for %s", j.header.algorithm, key.algorithm)
	}
	room, _ := inputs.Get().(*[usualPart]byte)
	defer inputs.Put(room)
	if !key.Verify(append(room[:0], j.signed...), j.signature[:]) {
		return refuse(CodeSignature, "the signature does not verify under %s", key)
	}
	return nil
}

// sign returns payload as a compact JWS, whose header calls the algorithm alg.
func sign(signer Signer, alg, typ, kid string, payload []byte) (string, error) {
	var room [2 * usualPart]byte
	compact := append(appendHeader(room[:0], alg, typ, kid), '.')
	compact = jose.AppendEncode(compact, payload)
	signature, err := signInput(signer, compact)
	if err != nil {
		return "", err
	}
	compact = jose.AppendEncode(append(compact, '.'), signature)
	if len(compact) > MaxTokenBytes {
		return "", refuse(CodeTooLarge, "has %d bytes; want at most %d", len(compact), MaxTokenBytes)
	}
	return string(compact), nil
}

// appendHeader appends a header as it stands in a JWS.
func appendHeader(b []byte, alg, typ, kid string) []byte {
	if alg == "Ed25519" && typ == typeToken && kid == "" {
		return append(b, linkHeaderEd25519...) // what holders write all the time
	}
	head := append(make([]byte, 0, 128), `{"alg":`...)
	head = powerbox.String(alg).AppendJSON(head)
	if kid != "" {
		head = powerbox.String(kid).AppendJSON(append(head, `,"kid":`...))
	}
	head = append(powerbox.String(typ).AppendJSON(append(head, `,"typ":`...)), '}')
	return jose.AppendEncode(b, head)
}

// signInput returns the signature of input, of which a [Signer] that is not ours
// gets a copy: it may keep what it is given.
func signInput(signer Signer, input []byte) ([]byte, error) {
	if key, ok := signer.(*PrivateKey); ok {
		return key.Sign(input)
	}
	return signer.Sign(bytes.Clone(input))
}

// checkParts refuses what does not have the three parts of a compact JWS.
func checkParts(compact string) error {
	if dots := strings.Count(compact, "."); dots != 2 {
		return refuse(CodeMalformed, "has %d parts; want a compact JWS: header, payload and signature joined by '.'", dots+1)
	}
	return nil
}
