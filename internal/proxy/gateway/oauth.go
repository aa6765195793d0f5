package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// An access token of this server stands for capabilities, and its client reads denials as
// OAuth words them: 401 to authorize, 403 to authorize again with a wider scope (ADR 129).

// codeToken is the denial of a call that shows an access token and another capability, or
// asks for one.
const codeToken = "token_is_capability" //nolint:gosec // a code of a denial

// tokenPresented presents the capabilities of the caller's access token, and no others: a
// client that holds a wider one must not use it with a narrower token.
func (x *decoded) tokenPresented(c *gate.Call) {
	c.Beside, c.ByPolicy = true, nil
	if x.showsCapability() {
		c.Refused = append(c.Refused, evidence.Reason{Code: codeToken, Message: "the call shows an access token, which is a capability, and another one beside; send one of them"})
	}
	for _, id := range x.caller.Token.Capabilities {
		c.Presented = append(c.Presented, gate.Presented{Reference: id})
	}
}

// showsCapability reports whether a call shows a capability by our header or members.
func (x *decoded) showsCapability() bool {
	h, m := x.request.Header, x.call.Members
	return len(h.Values(HeaderCapability)) > 0 || h.Get(HeaderProof) != "" || len(scopesPresented(h, m)) > 0 ||
		m != nil && (len(m.Chain) > 0 || m.CapabilityID != "" || len(m.Capabilities) > 0)
}

// challenge says a denial in the words of OAuth too, where the agent has OAuth clients. It
// returns the writer with the status that such clients understand.
func (g *Gateway) challenge(w http.ResponseWriter, x *decoded, d a2a.Denial) http.ResponseWriter {
	if x.Metadata == "" || x.mode == gate.Observe || x.call.Binding == a2a.GRPC || d.Away {
		return w
	}
	status, parameters := x.challenged(d)
	if status == 0 {
		return w
	}
	w.Header().Set("WWW-Authenticate", "Bearer "+parameters+`resource_metadata="`+x.Metadata+`"`)
	return restated{w, status}
}

// challenged is the status and the parameters of a challenge; 0 for a denial that no other
// token would change.
func (x *decoded) challenged(d a2a.Denial) (status int, parameters string) {
	const invalid = `error="invalid_token", `
	switch {
	case d.Code == a2a.CodeUnauthenticated && x.unproven != nil:
		return http.StatusUnauthorized, invalid
	case x.caller.Token.IsZero():
		nobody := x.caller.Principal == "" && x.caller.Holder.ID == "" && !x.showsCapability()
		if nobody && slices.Contains([]int{0, a2a.CodeUnauthorized, a2a.CodeUnauthenticated, a2a.CodeTaskNotFound}, d.Code) {
			return http.StatusUnauthorized, ""
		}
		return 0, ""
	}
	ended, lacks := false, false
	for _, why := range x.notes.verdict.Reasons {
		switch why.Code {
		case gate.CodeRevoked, string(powerbox.CodeExpired), gate.CodeCapabilityUnknown, gate.CodeNotHolder, gate.CodePrincipal:
			ended = true
		case string(powerbox.CodeOperation):
			lacks = true
		default:
			return 0, "" // no other token would help
		}
	}
	switch scope := x.neededScope(); {
	case lacks && scope != "":
		return http.StatusForbidden, `error="insufficient_scope", scope="` + scope + `", `
	case ended:
		return http.StatusUnauthorized, invalid
	}
	return 0, ""
}

// neededScope is the scope of the token with the missing operations: clients ask for
// what they are told, and must not lose what they have.
func (x *decoded) neededScope() string {
	scopes := strings.Fields(x.caller.Token.Scope)
	missing := false
	for _, name := range x.notes.verdict.Missing {
		scope, ours := strings.CutPrefix(name, x.ID+"/")
		if !ours {
			continue
		}
		missing = true
		if grant, _, _ := strings.Cut(scope, "/"); !slices.Contains(scopes, grant) && !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	if !missing {
		return ""
	}
	return strings.Join(scopes, " ")
}

// restated writes an answer with another status.
type restated struct {
	http.ResponseWriter
	status int
}

func (r restated) WriteHeader(int) { r.ResponseWriter.WriteHeader(r.status) }

// effective are the authorities that a call of the caller continues under: those of all
// capabilities of an access token, and otherwise that of the one that allowed it.
func (x *decided) effective() []powerbox.Authority {
	return append([]powerbox.Authority{x.verdict.Under}, x.verdict.Beside...)
}
