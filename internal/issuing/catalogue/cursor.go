package catalogue

import (
	"encoding/base64"
	"hash"
	"strings"
)

const (
	cursorPrefix = "rc_"
	// cursorBlock is what positions are padded to, so that the length of a cursor says
	// nothing about the resource at which a page ends.
	cursorBlock = 512
	// MaxPosition is the length of the longest position in a cursor.
	MaxPosition = 4 << 10
)

// SealCursor returns the cursor of a position in the answer to a query: "rc_" and
// base64url without padding. It opens only for the same agent, grant, principal and
// selection.
func (s *Sealer) SealCursor(agent, grant, principal, selection, position string) string {
	if len(position) > MaxPosition {
		return ""
	}
	about := cursorFrame(agent, grant, principal, selection)
	nonce := s.cursorNonce(about, position)
	return cursorPrefix + base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, pad(position, cursorBlock), about))
}

// OpenCursor returns the position in a cursor. Cursors of other principals, agents,
// grants, selections or keys and strings that are no cursor get the one answer "", false.
func (s *Sealer) OpenCursor(agent, grant, principal, selection, cursor string) (position string, ok bool) {
	blank := make([]byte, nonceBytes+cursorBlock+tagBytes)
	text, prefixed := strings.CutPrefix(cursor, cursorPrefix)
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	formed := prefixed && err == nil && len(sealed) >= len(blank) && !strings.ContainsAny(text, "\r\n")
	if !formed {
		sealed = blank
	}
	about := cursorFrame(agent, grant, principal, selection)
	padded, err := s.aead.Open(nil, sealed[:nonceBytes], sealed[nonceBytes:], about)
	position, whole := unpad(padded)
	if !formed || err != nil || !whole {
		return "", false
	}
	return position, true
}

// cursorFrame has more parts than that of a handle, so that neither opens as the other.
func cursorFrame(agent, grant, principal, selection string) []byte {
	return frame("powerbox resource cursor", agent, grant, principal, selection)
}

func (s *Sealer) cursorNonce(about []byte, position string) []byte {
	mac := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	mac.Write(about)
	mac.Write([]byte(position))
	return mac.Sum(nil)[:nonceBytes:nonceBytes]
}
