package provider

import (
	"crypto/hmac"
	"crypto/sha256"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
)

// argumentsDomain separates the keys of digests from every other use of the secret.
const argumentsDomain = "powerbox-arguments-digest/v1\n"

// ArgumentsKey is the key of the digest of the arguments that a record has, 32 bytes,
// made of the secret that is [Config.CodeKey]. Arguments are often one of a few values.
// Without the key they cannot be found by trying, and the key of one record does not
// help with another (AAP-Z4, AAP-Z3).
func ArgumentsKey(secret []byte, record string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(argumentsDomain)) // a hash takes everything
	mac.Write([]byte(record))
	return mac.Sum(nil)
}

// ArgumentsDigest is the recorded digest of the received arguments: HMAC-SHA-256 as a
// commitment to a body ([evidence.Body.Commitment]), of the bytes as they were received.
// No arguments are no bytes.
func ArgumentsDigest(key, received []byte) string {
	return (&evidence.Body{Key: key, Bytes: received}).Commitment()
}

// told adds the parts of an execution's record beside those of every decision: the
// agent's token, the grant that was decided on last, and the digest of the arguments
// (AAP-Z4). It is canonical JSON, written in place for each execution.
func (p *Provider) told(s Session, held []Grant, received []byte) func(record, capability string) []byte {
	return func(record, capability string) []byte {
		b := append(make([]byte, 0, 256), `{"arguments_digest":"`...)
		b = append(b, ArgumentsDigest(ArgumentsKey(p.config.CodeKey, record), received)...)
		b = append(b, '"')
		for _, g := range held {
			if capability != "" && g.Record == capability {
				b = powerbox.String(g.ID).AppendJSON(append(b, `,"grant":`...))
				break
			}
		}
		b = powerbox.String(s.token.ID).AppendJSON(append(b, `,"jti":`...))
		return append(b, '}')
	}
}
