package gateway

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/token"
)

// What a process beside the calling agent says in headers, since it must not
// touch the body (ADR 16).
const (
	HeaderDelegation = "Powerbox-Delegation"
	HeaderPurpose    = "Powerbox-Purpose"
)

const (
	maxDelegation = 8 << 10 // the header budget
	maxPurpose    = 1024
)

// purpose is what a call is for, to be recorded, where its metadata do not say
// so. Like every purpose it decides nothing.
func purpose(h http.Header) string {
	p := h.Get(HeaderPurpose)
	if len(p) > maxPurpose || !utf8.ValidString(p) {
		return ""
	}
	return p
}

// handOn lets pass what the caller hands over to the agent behind: chains that
// are bound to that agent's key, useless to anybody else and under a name of
// ours. Who shows no capability for the call itself hands over nothing, and
// what has not the form of chains is no delegation.
func (x *decided) handOn(h http.Header) {
	values := x.request.Header.Values(HeaderDelegation)
	if x.verdict.Basis != gate.OnCapability || len(values) != 1 || len(values[0]) > maxDelegation {
		return
	}
	for chain := range strings.SplitSeq(values[0], ";") {
		if _, err := token.ParseChain(token.SplitChain(chain)); err != nil {
			return
		}
	}
	h.Set(HeaderDelegation, values[0])
}
