package app

import (
	"encoding/base64"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// LastID reads the jti of the last token, also of a chain that does not parse.
func LastID(chain []string) (string, error) {
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(chain[len(chain)-1], ".")[1])
	if err != nil {
		return "", err
	}
	v, err := powerbox.ParseValue(payload)
	if err != nil {
		return "", err
	}
	jti, _ := v.Get("jti")
	id, _ := jti.Text()
	return id, nil
}
