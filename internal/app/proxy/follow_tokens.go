package proxy

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
)

// minimumRelayToken is the length of the shortest token by which a feed is
// followed, in bytes.
const minimumRelayToken = 32

// FollowTokens are hashes of the bearer tokens by which a feed may be followed.
type FollowTokens [][sha256.Size]byte

// Shown reports whether a request shows one of them.
func (f FollowTokens) Shown(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum, found := sha256.Sum256([]byte(given)), 0
	for _, one := range f {
		found |= subtle.ConstantTimeCompare(sum[:], one[:])
	}
	return ok && found == 1
}

// Add takes one more token from a file.
func (f *FollowTokens) Add(file string, token []byte) error {
	if token = bytes.TrimSpace(token); len(token) < minimumRelayToken {
		return fmt.Errorf("%s has a token of %d bytes; want at least %d", file, len(token), minimumRelayToken)
	}
	*f = append(*f, sha256.Sum256(token))
	return nil
}
