package app

import (
	"encoding/base64"
	"errors"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// LastToken reads the jti of the last token and the hash of its signing input, also of a
// chain that does not parse.
func LastToken(chain []string) (id, hash string, err error) {
	last := chain[len(chain)-1]
	parts := strings.Split(last, ".")
	if len(parts) != 3 {
		return "", "", errors.New("the last token of the chain is no JWS")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", "", err
	}
	v, err := powerbox.ParseValue(payload)
	if err != nil {
		return "", "", err
	}
	jti, _ := v.Get("jti")
	id, _ = jti.Text()
	return id, token.DigestOf([]byte(parts[0] + "." + parts[1])), nil
}
