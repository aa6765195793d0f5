package hop

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
)

// ServeCard answers with a card, which clients may keep for a minute and then ask again
// whether it changed (A2A 1.0, section 8.6).
func ServeCard(w http.ResponseWriter, r *http.Request, card []byte) {
	sum := sha256.Sum256(card)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:]) + `"`
	w.Header().Set("Cache-Control", "public, max-age=60")
	w.Header().Set("ETag", tag)
	known := func(given string) bool {
		given = strings.TrimSpace(given)
		return given == tag || given == "*" || given == "W/"+tag
	}
	if slices.ContainsFunc(strings.Split(r.Header.Get("If-None-Match"), ","), known) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(card) // a client that has gone needs no answer
}
