package a2apb

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	v1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/powerbox-project/powerbox/internal/a2a"
	"github.com/powerbox-project/powerbox/token"
)

// cardAlgorithms are those in which a card may be signed.
var cardAlgorithms = []jose.SignatureAlgorithm{
	jose.EdDSA, jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512, jose.RS256, jose.RS384, jose.RS512,
}

// ErrCardSignature is the root of what is wrong with the signatures of a card.
// Whoever pins its keys must not use the card.
var ErrCardSignature = errors.New("the card has no signature of a pinned key")

// canonicalCard returns what the signatures of a card of 1.0 are about (A2A 1.0,
// section 8.4.1): the card as the protocol defines it, without its signatures
// and without what has its default, in the form of RFC 8785. SDKs differ in
// whether empty objects, arrays and texts inside free-form members stay, so that
// there may be two forms; bare is that without.
func canonicalCard(raw []byte) (full, bare []byte, err error) {
	var card v1.AgentCard
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &card); err != nil {
		return nil, nil, fmt.Errorf("card: %w", err)
	}
	card.Signatures = nil
	written, err := protojson.Marshal(&card)
	if err != nil {
		return nil, nil, fmt.Errorf("card: %w", err)
	}
	if full, err = canonical(written); err != nil {
		return nil, nil, err
	}
	d := json.NewDecoder(bytes.NewReader(written))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, nil, fmt.Errorf("card: %w", err)
	}
	cleaned, err := json.Marshal(withoutEmpty(tree))
	if err != nil {
		return nil, nil, fmt.Errorf("card: %w", err)
	}
	bare, err = canonical(cleaned)
	return full, bare, err
}

// canonical is the form of RFC 8785. Numbers come from protobuf, which has none
// that this changes.
func canonical(raw []byte) ([]byte, error) {
	v := jsontext.Value(raw)
	if err := v.Canonicalize(); err != nil {
		return nil, fmt.Errorf("card: %w", err)
	}
	return v, nil
}

// withoutEmpty drops what is empty, at every level; nil where nothing is left.
func withoutEmpty(v any) any {
	switch v := v.(type) {
	case string:
		if v == "" {
			return nil
		}
	case []any:
		var kept []any
		for _, e := range v {
			if e = withoutEmpty(e); e != nil {
				kept = append(kept, e)
			}
		}
		if kept == nil {
			return nil
		}
		return kept
	case map[string]any:
		for name, e := range v {
			if e = withoutEmpty(e); e == nil {
				delete(v, name)
			} else {
				v[name] = e
			}
		}
		if len(v) == 0 {
			return nil
		}
	}
	return v
}

// SignCard signs a card in place of whoever signed it. Where SDKs differ in the
// form it is signed in both. A card that is of 0.3 alone stays unsigned.
func SignCard(raw []byte, signer token.Signer) ([]byte, error) {
	view, err := a2a.ReadCard(raw)
	if err != nil {
		return nil, err
	}
	if !view.Current {
		return raw, nil
	}
	full, bare, err := canonicalCard(raw)
	if err != nil {
		return nil, err
	}
	payloads := [][]byte{full}
	if !bytes.Equal(full, bare) {
		payloads = append(payloads, bare)
	}
	key := signer.Public()
	header, err := json.Marshal(map[string]string{"alg": key.Algorithm().String(), "kid": key.Thumbprint(), "typ": "JOSE"})
	if err != nil {
		return nil, err
	}
	protected := base64.RawURLEncoding.EncodeToString(header)
	var all []a2a.CardSignature
	for _, p := range payloads {
		s, err := signer.Sign([]byte(protected + "." + base64.RawURLEncoding.EncodeToString(p)))
		if err != nil {
			return nil, fmt.Errorf("card: %w", err)
		}
		all = append(all, a2a.CardSignature{Protected: protected, Signature: base64.RawURLEncoding.EncodeToString(s)})
	}
	return a2a.WithSignatures(raw, all...)
}

// VerifyCard returns what one of a card's signatures is about, if it is that of a
// pinned key, to which the card's own key URLs never add (CARD-15). What else the
// card says is nobody's word.
func VerifyCard(raw []byte, keys jose.JSONWebKeySet) ([]byte, error) {
	signatures, err := a2a.Signatures(raw)
	if err != nil {
		return nil, err
	}
	full, bare, err := canonicalCard(raw)
	if err != nil {
		return nil, err
	}
	for _, s := range signatures {
		for _, payload := range [][]byte{full, bare} {
			jws, err := jose.ParseDetached(s.Protected+".."+s.Signature, payload, cardAlgorithms)
			if err != nil {
				continue
			}
			for _, key := range keys.Key(jws.Signatures[0].Protected.KeyID) {
				if key.Algorithm != "" && key.Algorithm != jws.Signatures[0].Protected.Algorithm {
					continue
				}
				if jws.DetachedVerify(payload, key.Key) == nil {
					return covered(raw)
				}
			}
		}
	}
	return nil, ErrCardSignature
}

// covered is a card without what its signatures are not about, such as the
// addresses of 0.3, which whoever passes it on could put in.
func covered(raw []byte) ([]byte, error) {
	var card v1.AgentCard
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &card); err != nil {
		return nil, fmt.Errorf("card: %w", err)
	}
	written, err := protojson.Marshal(&card)
	if err != nil {
		return nil, fmt.Errorf("card: %w", err)
	}
	return canonical(written) // since protojson varies its white space
}
