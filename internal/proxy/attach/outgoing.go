package attach

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/a2apb"
	"github.com/powerbox-project/powerbox/token"
)

// outgoing is one call on its way out.
type outgoing struct {
	*seen
	peer    Peer
	call    a2a.Call
	proven  a2a.Proven
	method  string   // of HTTP
	target  *url.URL // where it goes
	claimed string   // URL that a proof names
	body    []byte   // as received, which is as it goes out
	signed  []byte   // the bytes of it that a proof is about
}

// sent is what of a request is read to know its call.
type sent struct {
	binding a2a.Binding
	method  string
	path    string // below the agent's URL as it was sent; in gRPC all of it
	query   string
	header  http.Header
	body    []byte
}

// limits of reading.
var limits = powerbox.Limits{Bytes: maxBody, Depth: 64}

// decode reads the call as in its binding, and the bytes that a proof of it
// is about.
func (s sent) decode() (call a2a.Call, signed []byte, wrong *a2a.Error) {
	h := s.version()
	switch s.binding {
	case a2a.HTTPJSON:
		call, wrong = a2a.DecodeHTTP(a2a.HTTPRequest{Method: s.method, Path: s.path, Query: s.query, Body: s.body}, h, limits)
		return call, s.body, wrong
	case a2a.GRPC:
		message, err := a2apb.Unframe(s.body)
		call, wrong = a2apb.Decode(s.path, message, h, limits)
		if err != nil {
			wrong = &a2a.Error{Code: a2a.CodeParse, Reason: a2a.ReasonSyntax, Message: err.Error()}
		}
		return call, message, wrong
	default:
		if call, wrong = a2a.Decode(s.body, h, limits); wrong != nil && wrong.Code == a2a.CodeParse {
			// Anything that is no JSON often says so itself. Whether JSON of another type is taken is
			// for the gateway to say.
			if untyped := a2a.CheckType(s.binding, s.header.Values("Content-Type"), len(s.body) == 0); untyped != nil {
				wrong = untyped
			}
		}
		return call, s.body, wrong
	}
}

// version collects what a client says beside the body.
func (s sent) version() a2a.Header {
	h := a2a.Header{
		Version:    s.header.Get("A2A-Version"),
		Extensions: append(s.header.Values("A2A-Extensions"), s.header.Values("X-A2A-Extensions")...),
	}
	if values, err := url.ParseQuery(s.query); h.Version == "" && err == nil {
		h.Version = values.Get("A2A-Version")
	}
	return h
}

// read works out what a call of the peer is, where it goes and what its proof
// has to name.
func read(p Peer, card *seen, s sent) (*outgoing, *a2a.Error) {
	o := &outgoing{seen: card, peer: p, method: s.method, body: s.body}
	var wrong *a2a.Error
	if o.call, o.signed, wrong = s.decode(); wrong != nil {
		return o, wrong
	}
	if wrong = o.addressed(s); wrong != nil {
		return o, wrong
	}
	o.proven, wrong = o.call.Proves(o.urlSkill(), func(skill string) string {
		if mapped, ok := o.agent.Skills[skill]; ok {
			return mapped.Operation.String()
		}
		return ""
	})
	return o, wrong
}

// addressed sets where the call goes, and the URL that its proof names, which
// are the same except for gRPC, whose address says no more than a port, and for
// the query of JSON-RPC, which is no part of a call.
func (o *outgoing) addressed(s sent) *a2a.Error {
	to, ok := at(o.view, s.binding, o.call.Version, o.call.Tenant)
	if !ok {
		return a2a.MethodNotFound(o.call.Binding, o.call.Wire)
	}
	var err error
	switch s.binding {
	case a2a.GRPC:
		if o.target, err = address(to.URL, o.peer.GRPCUpstream); err == nil {
			o.target.Path = s.path
		}
		o.claimed = strings.TrimRight(o.agent.Issuer, "/") + s.path
	case a2a.HTTPJSON:
		o.claimed = withQuery(strings.TrimRight(to.URL, "/")+s.path, s.query)
		o.target, err = url.Parse(o.claimed)
	default:
		o.claimed = to.URL
		o.target, err = url.Parse(withQuery(to.URL, s.query))
	}
	if err != nil || o.target.Host == "" {
		return &a2a.Error{Code: a2a.CodeInternal, Reason: "card", Message: fmt.Sprintf("the card of %s names no usable URL for %s", o.peer.Name, s.binding)}
	}
	if o.leadsIn(s.binding) {
		return &a2a.Error{Code: a2a.CodeInternal, Reason: "card", Message: fmt.Sprintf("the card of %s leads to %s on this machine, and the agent is on another one", o.peer.Name, o.target.Host)}
	}
	return nil
}

// leadsIn reports whether the card of an agent elsewhere leads to this machine. Programs here
// trust what comes from here, and this process would sign the call for another agent (ATK-156).
func (o *outgoing) leadsIn(b a2a.Binding) bool {
	if b == a2a.GRPC && o.peer.GRPCUpstream != "" || !isLoopback(o.target.Hostname()) {
		return false
	}
	card, err := url.Parse(o.peer.Card)
	return err != nil || !isLoopback(card.Hostname())
}

func withQuery(address, query string) string {
	if query == "" {
		return address
	}
	return address + "?" + query
}

// urlSkill is the skill that the agent's URL stands for, "" for none.
func (o *outgoing) urlSkill() string {
	skill, ok := strings.CutPrefix(o.agent.URL, strings.TrimRight(o.agent.Issuer, "/")+"/skills/")
	if !ok {
		return ""
	}
	return strings.TrimRight(skill, "/")
}

// presents reports whether a call is made under a capability: the methods by
// which capabilities are had are not.
func (o *outgoing) presents() bool {
	return o.agent.Negotiates && (!o.call.Method.IsExtension() || o.call.Method == a2a.SkillInvoke || o.call.Method == a2a.TaskSend)
}

// isMessage reports whether the call carries a message, with which something
// can be handed over.
func (o *outgoing) isMessage() bool {
	return o.call.Method.IsMessage() || o.call.Method == a2a.SkillInvoke
}

// isWords reports whether the call is a message that names no skill.
func (o *outgoing) isWords() bool {
	return o.isMessage() && o.proven.Operation == a2a.OperationMessage
}

// operation is what the call's proof names.
func (o *outgoing) operation() (powerbox.Operation, error) {
	return powerbox.ParseOperation(o.proven.Operation)
}

// attempt is what a proof of the call is about.
func (o *outgoing) attempt() (holder.Attempt, error) {
	op, err := o.operation()
	return holder.Attempt{
		Operation: op, Arguments: o.proven.Arguments, Method: o.method, URL: o.claimed, Digest: token.DigestOf(o.signed),
	}, err
}
