package token

import (
	"crypto/sha256"
	"net/url"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
)

// typeDPoP is the typ of DPoP proofs (RFC 9449, section 4.2).
const typeDPoP = "dpop+jwt"

// maxDPoPBytes bounds a DPoP proof. It has one key, one URL, and some names.
const maxDPoPBytes = 8 << 10

// DPoPRequest is the request that a DPoP proof is for.
type DPoPRequest struct {
	Method string
	// URL is the target. Its query and fragment are not looked at (RFC 9449,
	// section 4.3).
	URL string
	// AccessToken is what the Authorization header carries beside the proof,
	// or empty: then a proof that is bound to some token is refused.
	AccessToken string
	Now         time.Time
	// Window is how far the time of the proof may be from Now, both ways.
	Window time.Duration
}

// DPoP is a verified DPoP proof. It does not say that the proof is used for
// the first time: anyone who verifies it must remember ID per key, for twice the
// window.
type DPoP struct {
	Key      PublicKey
	ID       string // the jti
	IssuedAt time.Time
}

// VerifyDPoP verifies a DPoP proof with every check of RFC 9449, section 4.3,
// but those on the HTTP header and on single use, which are for the caller. It
// is the one place where a key in a header is the key: it proves who holds it
// and nothing else. The typ must be there, so that no other JWT of the key can
// stand in (ATK-13), and a private jwk is refused.
func VerifyDPoP(proof string, want DPoPRequest) (DPoP, error) {
	if len(proof) > maxDPoPBytes {
		return DPoP{}, refuse(CodeTooLarge, "DPoP proof has %d bytes; want at most %d", len(proof), maxDPoPBytes)
	}
	j, err := parseJWS(proof, typeDPoP)
	if err != nil {
		return DPoP{}, err
	}
	key, err := dpopKey(proof)
	if err != nil {
		return DPoP{}, err
	}
	p, err := checkDPoP(j.payload, want)
	if err != nil {
		return DPoP{}, err
	}
	p.Key = key
	if err := j.verify(KeptKey{PublicKey: key}); err != nil {
		return DPoP{}, err
	}
	return p, nil
}

// dpopKey reads the key of a proof that parseJWS accepted.
func dpopKey(proof string) (PublicKey, error) {
	first, _, _ := strings.Cut(proof, ".")
	// It was parsed once; what cannot be parsed has no typ and is refused.
	head, _ := parsePart("header", first, powerbox.Limits{Bytes: maxHeaderBytes, Depth: 16})
	if member(head, "typ") != typeDPoP {
		return PublicKey{}, refuse(CodeType, "header: want typ %q", typeDPoP)
	}
	jwk, ok := head.Get("jwk")
	if !ok {
		return PublicKey{}, refuse(CodeMissingClaim, "header: jwk is missing; want the public key of the proof")
	}
	return parseJWK(jwk)
}

func checkDPoP(claims powerbox.Value, want DPoPRequest) (DPoP, error) {
	id := member(claims, "jti")
	if id == "" || len(id) > 256 {
		return DPoP{}, refuse(CodeMissingClaim, "jti has %d bytes; want a string of 1 to 256", len(id))
	}
	if member(claims, "htm") != want.Method {
		return DPoP{}, refuse(CodeProofRequest, "htm is not the method of the request; want %q", want.Method)
	}
	target, ok := dpopTarget(want.URL)
	if named, valid := dpopTarget(member(claims, "htu")); !ok || !valid || named != target {
		return DPoP{}, refuse(CodeProofRequest, "htu is not the URL of the request; want %q", target)
	}
	iat, _ := claims.Get("iat")
	at, ok := NumericDate(iat)
	if !ok {
		return DPoP{}, refuse(CodeMissingClaim, "iat is missing or not a number of seconds since 1970")
	}
	if at.Before(want.Now.Add(-want.Window)) || at.After(want.Now.Add(want.Window)) {
		return DPoP{}, refuse(CodeProofTime, "iat is more than %s from now; make a new proof, and compare the clocks", want.Window)
	}
	if err := checkTokenHash(claims, want.AccessToken); err != nil {
		return DPoP{}, err
	}
	return DPoP{ID: id, IssuedAt: at}, nil
}

// checkTokenHash compares ath, which must be there with an access token and
// only then: a proof that was made for one token does not serve without it.
func checkTokenHash(claims powerbox.Value, accessToken string) error {
	ath, ok := claims.Get("ath")
	if accessToken == "" {
		if ok {
			return refuse(CodeProofToken, "ath binds the proof to an access token that the request does not have")
		}
		return nil
	}
	if text, _ := ath.Text(); text != tokenHash(accessToken) {
		return refuse(CodeProofToken, "ath is missing or not the hash of the request's access token")
	}
	return nil
}

func tokenHash(accessToken string) string {
	sum := sha256.Sum256([]byte(accessToken))
	return encodeBase64(sum[:])
}

// dpopTarget returns a URL as it is compared: scheme and host in lower case,
// without a default port, user, query and fragment. The path is compared as it
// is written, percent-encoding and all, since servers route by it.
func dpopTarget(s string) (string, bool) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil {
		return "", false
	}
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	switch scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	default:
		return "", false
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	return scheme + "://" + host + path, true
}

// SignDPoP returns a DPoP proof by the signer for the request, made at its Now
// (Window is not used). The id must be different for every proof: 16 random
// bytes or more, in text.
func SignDPoP(signer Signer, r DPoPRequest, id string) (string, error) {
	target, ok := dpopTarget(r.URL)
	if !ok {
		return "", refuse(CodeProofRequest, "%q is not an absolute http or https URL", r.URL)
	}
	claims := []powerbox.Member{
		textMember("jti", id), textMember("htm", r.Method), textMember("htu", target),
		{Name: "iat", Value: powerbox.Number(powerbox.Int(r.Now.Unix()))},
	}
	if r.AccessToken != "" {
		claims = append(claims, textMember("ath", tokenHash(r.AccessToken)))
	}
	public := signer.Public()
	header := powerbox.Object(
		textMember("alg", public.algorithm.String()), textMember("typ", typeDPoP),
		powerbox.Member{Name: "jwk", Value: public.JWK()},
	)
	signed := encodeBase64(header.AppendJSON(nil)) + "." + encodeBase64(powerbox.Object(claims...).AppendJSON(nil))
	signature, err := signer.Sign([]byte(signed))
	if err != nil {
		return "", err
	}
	return signed + "." + encodeBase64(signature), nil
}
