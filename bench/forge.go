package main

import (
	"encoding/base64"
	"errors"
	"strings"

	"github.com/powerbox-project/powerbox/token"
)

// forge changes a token's payload and signs it anew with its issuer's key: the
// signature is valid, the payload is forged.
func forge(compact string, issuer token.Signer, old, wide string) (string, error) {
	parts := strings.Split(compact, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", err
	}
	changed := strings.Replace(string(payload), old, wide, 1)
	if changed == string(payload) {
		return "", errors.New("forge: the payload does not have what is to be changed")
	}
	input := parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(changed))
	signature, err := issuer.Sign([]byte(input))
	if err != nil {
		return "", err
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}
