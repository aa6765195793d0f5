package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/token"
)

// given returns how the gate finds what an operator gave for such a call, nil for nothing.
func (g *Gateway) given(x *decoded, tried *attempted) func(context.Context) ([]gate.Held, error) {
	if g.config.Given == nil {
		return nil
	}
	return func(ctx context.Context) ([]gate.Held, error) {
		if !tried.isNamed {
			return nil, nil
		}
		return g.config.Given(ctx, x.ID, x.caller, tried.mapped.Operation)
	}
}

// gateCaller is the caller as the gate knows callers.
func (g *Gateway) gateCaller(x *identified) gate.Caller {
	return gate.Caller{
		Name: x.caller.Agent, Principal: g.config.Pseudonym(x.ID, x.caller.Principal), Holder: x.caller.Holder.ID,
		ProofID: x.caller.ProofID, ProofUntil: x.caller.ProofUntil, Expires: x.caller.SessionExpires,
	}
}

// gateCall words a call as the gate's, and says what it tries.
func (g *Gateway) gateCall(x *decoded, wrong *a2a.Error) (*gate.Call, attempted, error) {
	parent, state := x.mcp.Trace()
	tried := attempted{trace: cmp.Or(x.trace(parent, state), traceID(parent), traceID(x.request.Header.Get("Traceparent")))}
	target := x.view.target
	digest := token.DigestOf(x.proof)
	target.Anchors = x.Keys() // they can change between two calls, unlike what the card says
	c := &gate.Call{
		Target: &target, Mode: x.mode, Origin: g.config.Origin,
		Caller: g.gateCaller(x.identified),
		Tenant: x.call.Tenant, Task: x.call.Task, Context: x.call.Context, Action: action.OfA2A(x.call.Method.String()).String(),
		Request: token.Request{Method: x.request.Method, URL: x.target(), Digest: digest},
		Bound:   x.by().bound(x, digest), Released: x.released != nil,
		Ambient: x.request.Header.Get(HeaderAmbient) != "",
		Ask:     gate.Ask{Denied: g.denied(x.request.Context(), x), Path: g.alongPlans(x, &tried)},
	}
	c.Record.Details.TraceID = tried.trace
	if x.count != nil {
		c.Ask.Admit = x.admitted
	}
	c.Scope = g.config.scopeAt(x.ID)
	if g.config.ByPolicy != nil && x.Scopes.byPolicy() && x.caller.Principal != "" {
		c.ByPolicy = func() (powerbox.Authority, error) { return g.config.ByPolicy(x.request.Context(), x.ID, x.caller) }
	}
	c.Ask.Given = g.given(x, &tried)
	g.data(x, c)
	if wrong != nil {
		c.Refused = append(c.Refused, wrongly(wrong))
		return c, tried, nil
	}
	if x.mode == gate.Observe {
		c.Record.Details.Reasons = x.rewritten()
	}
	c.Action = x.by().action(x).String()
	if err := g.attempts(x, &tried, c); err != nil {
		return nil, tried, err
	}
	if why := x.beyond(); why != nil {
		c.Refused = append(c.Refused, *why)
	}
	if len(x.Scopes.Operations) > 0 {
		c.Attempts = append(c.Attempts, powerbox.Admission(x.Scopes.Operations...))
	}
	c.Reads, c.Cancels = !x.by().changes(x, &tried), x.call.Method == a2a.CancelTask
	c.Behind = !wantsReceipt(x.request.Header) // which proves an outcome that is on record
	if c.Approval = x.approving(&tried); c.Approval {
		// Question, answer and action are told as one story.
		tried.trace = cmp.Or(tried.trace, newTrace())
		c.Record.Details.TraceID = tried.trace
	}
	if err := g.presented(x, &tried, c); err != nil {
		return nil, tried, err
	}
	if x.released != nil {
		// What the call was made with has been used; it continues under the capability that was given
		// for it, which ends with what it came under.
		c.Presented = []gate.Presented{{Reference: x.released.Capability}}
		c.Record.TaskID = x.released.Task
	}
	if x.call.Push != nil {
		c.Ask.Last = func() *evidence.Reason { return g.pushable(x) }
	}
	return c, tried, g.owns(x, &tried, c)
}

// boundWhole is the digest of everything that the call is: what a person approved is good for
// this call, at this agent and in this tenant, and for no other (ATK-58).
func (x *decoded) boundWhole(digest string) string {
	return digestOf(x.ID, x.binding.String(), x.request.Method, x.target(), x.call.Wire, x.call.Version, x.call.Tenant, strings.Join(x.call.Extensions, ","), digest)
}

// digestOf is one digest of several texts.
func digestOf(parts ...string) string {
	var all []byte
	for _, part := range parts {
		all = binary.BigEndian.AppendUint64(all, uint64(len(part)))
		all = append(all, part...)
	}
	digest := sha256.Sum256(all)
	return base64.RawURLEncoding.EncodeToString(digest[:])
}

// codeRewritten is what observe notes where the agent would get another message in a mode
// that enforces.
const codeRewritten = "would_be_rewritten"

// rewritten notes that members of the call would not reach the agent, or under another
// name.
func (x *decoded) rewritten() []evidence.Reason {
	dropped := append(slices.Clone(x.call.Dropped), x.mcp.Dropped...)
	if len(dropped) == 0 {
		return nil
	}
	return []evidence.Reason{{Code: codeRewritten, Message: "members that no rule knows, or that are spelt as in protobuf: " + strings.Join(dropped, ", ")}}
}

// newTrace is the id of a trace that begins here.
func newTrace() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// traceID returns the trace of a traceparent of W3C Trace Context.
func traceID(parent string) string {
	parts := strings.Split(parent, "-")
	if len(parts) < 4 || len(parts[1]) != 32 || strings.Trim(parts[1], "0123456789abcdef") != "" {
		return ""
	}
	return parts[1]
}

// attempts works out what the call tries.
func (g *Gateway) attempts(x *decoded, tried *attempted, c *gate.Call) error {
	if m := x.call.Members; m != nil {
		c.Record.Intent.Purpose, c.Ambient = m.Purpose, c.Ambient || m.Ambient
	}
	if c.Record.Intent.Purpose == "" {
		c.Record.Intent.Purpose = purpose(x.request.Header)
	}
	return x.by().attempts(g, x, tried, c)
}

// a2aAttempts works out what a call of A2A tries.
func (g *Gateway) a2aAttempts(x *decoded, tried *attempted, c *gate.Call) error {
	task := x.call.TaskArguments()
	if m := x.call.Method; m.IsMessage() || m == a2a.SkillInvoke {
		return g.messageAttempts(x, tried, c, task)
	}
	operation := x.call.Method.Operation()
	if operation == a2a.OperationMessage {
		// A method that only configuration knows: what it needs is what a
		// message needs.
		c.Attempts = append(c.Attempts, powerbox.Admission(x.Required...))
		c.Free.Any = true
	}
	return try(c, reserved[operation], task)
}

// messageAttempts tries the named skill with its arguments, or, where nothing
// is named, the admission of free text; both need the right to send messages.
func (g *Gateway) messageAttempts(x *decoded, tried *attempted, c *gate.Call, task powerbox.Value) error {
	named, found, ambiguous := x.call.Naming(x.skill)
	if ambiguous != nil {
		c.Refused = append(c.Refused, wrongly(ambiguous))
		return nil
	}
	// Content beside a named skill could ask for anything else. A stock client
	// at the URL of a skill can send nothing but content: it is about that skill
	// (level L1), whose arguments it must not be able to choose.
	atSkill := found && x.skill != ""
	c.Free.Any, c.Free.First = x.call.Message.Loose, x.call.Message.Content
	if found {
		mapped, ok := x.Skills[named.Skill]
		if !ok || !slices.Contains(x.view.card.Skills, named.Skill) {
			c.Refused = append(c.Refused, evidence.Reason{Code: "skill_unmapped", Message: "skill " + named.Skill + " maps to no operation here"})
			return nil
		}
		tried.named, tried.mapped, tried.isNamed = named, mapped, true
		if atSkill {
			c.Free.Of = mapped.Operation
		}
		c.Handle, c.Record.Details.Arguments = mapped.Handle, g.config.Redact(named.Arguments)
		if err := x.keep(c, mapped.Operation, named.Arguments); err != nil {
			return err
		}
		if err := try(c, mapped.Operation, named.Arguments); err != nil {
			return err
		}
	}
	if c.Free.Any && !atSkill || !found {
		c.Free.Any = true
		c.Attempts = append(c.Attempts, powerbox.Admission(x.Required...))
	}
	if x.call.Message.Unread && !atSkill && !x.AdmitFreeText {
		// Structured data that is no call here may be any call to the agent: it is never
		// free text (ATK-57).
		c.Attempts = append(c.Attempts, powerbox.Admission(x.anySkill()...))
	}
	if x.call.Push != nil {
		if err := try(c, reserved[a2a.OperationPush], task); err != nil {
			return err
		}
	}
	return try(c, reserved[a2a.OperationMessage], task)
}

// anySkill are the operations of all skills on the agent's card.
func (x *decoded) anySkill() []powerbox.Operation {
	var all []powerbox.Operation
	for _, name := range x.view.card.Skills {
		if s, ok := x.Skills[name]; ok && !slices.Contains(all, s.Operation) {
			all = append(all, s.Operation)
		}
	}
	return all
}

// presented collects the capabilities that the call shows: by header, by
// members of the request metadata, by reference, as scope tokens.
func (g *Gateway) presented(x *decoded, tried *attempted, c *gate.Call) error {
	if !x.caller.Token.IsZero() {
		x.tokenPresented(c)
		return nil
	}
	h, m := x.request.Header, x.call.Members
	// A proof whose capability was left out is one that does not hold, and no
	// call of a caller without capabilities (ATK-54).
	stray := h.Get(HeaderProof) != "" && (m == nil || len(m.Chain) == 0)
	if values := h.Values(HeaderCapability); len(values) == 1 && !stray && isReference(values[0]) {
		// MCP has no metadata of ours, nor have most methods of A2A; and a client that
		// cannot sign has one header.
		c.Presented = append(c.Presented, gate.Presented{Reference: values[0]})
	} else if len(values) > 0 || stray {
		c.Presented = append(c.Presented, gate.Presented{Chain: token.SplitChain(strings.Join(values, ",")), Proof: h.Get(HeaderProof)})
	}
	c.Presented = append(c.Presented, scopesPresented(h, m)...)
	if m == nil {
		return nil
	}
	if len(m.Chain) > 0 {
		proof := m.Proof
		if proof == "" {
			proof = h.Get(HeaderProof)
		}
		c.Presented = append(c.Presented, gate.Presented{Chain: m.Chain, Proof: proof})
	}
	if m.CapabilityID != "" {
		c.Presented = append(c.Presented, gate.Presented{Reference: m.CapabilityID})
	}
	return g.attenuated(x, tried, c, m)
}

// isReference reports whether a header names a capability on record and shows no
// token, which has dots.
func isReference(value string) bool {
	return strings.HasPrefix(value, "cap_") && !strings.Contains(value, ".")
}

// maxCapabilities is how many capabilities one task can be sent with.
const maxCapabilities = 16

// attenuated narrows the capabilities that a task is sent with (SEP-13): those
// of this agent are what the task runs under. Those of others are for the agent
// behind, and are derived once the call is allowed.
func (g *Gateway) attenuated(x *decoded, tried *attempted, c *gate.Call, m *a2a.Members) error {
	if len(m.Capabilities) > maxCapabilities {
		c.Refused = append(c.Refused, evidence.Reason{Code: a2a.ReasonParams, Message: "a task can be sent with at most 16 capabilities"})
		return nil
	}
	var own []string
	for _, id := range m.Capabilities {
		agent, err := g.config.Delegating.IssuerOf(x.request.Context(), x.caller, id)
		if err != nil {
			return err
		}
		if agent == x.ID {
			own = append(own, id)
		} else {
			tried.handed = append(tried.handed, id)
		}
	}
	kept, err := g.delegate(x, own, m)
	for _, k := range kept {
		c.Presented = append(c.Presented, gate.Presented{Reference: k.ID})
	}
	return err
}

// handOver makes the agent behind the holder of what the task was given of
// other agents.
func (g *Gateway) handOver(x *decided) ([]Delegated, error) {
	return g.delegate(x.decoded, x.handed, x.call.Members)
}

func (g *Gateway) delegate(x *decoded, ids []string, m *a2a.Members) ([]Delegated, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return g.config.Delegating.Delegate(x.request.Context(), x.caller, ids, m.Attenuations, x.ID)
}

// try adds an invocation to what the call tries.
func try(c *gate.Call, op powerbox.Operation, args powerbox.Value) error {
	attempt, err := powerbox.Invocation(op, args)
	if err != nil {
		return err
	}
	c.Attempts = append(c.Attempts, attempt)
	return nil
}

// codeArguments is the denial of arguments that are too large to be kept.
const codeArguments = "arguments_too_large"

// keep has the record of the call commit to its arguments, where the agent's are
// kept beside it. What cannot be kept is refused: padding is no way to leave less
// evidence.
func (x *decoded) keep(c *gate.Call, op powerbox.Operation, arguments powerbox.Value) error {
	if x.Detach == nil {
		return nil
	}
	data := arguments.AppendJSON(nil)
	if len(data) > evidence.MaxBody {
		c.Refused = append(c.Refused, evidence.Reason{
			Code: codeArguments, Operation: op.String(),
			Message: "the arguments have more than " + strconv.Itoa(evidence.MaxBody) + " bytes, which is the most that is kept of a call here; send less",
		})
		return nil
	}
	body, err := x.Detach(data)
	if body != nil {
		c.Record.Detach(body)
	}
	return err
}
