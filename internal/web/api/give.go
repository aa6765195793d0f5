package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Callers knows the configured callers.
type Callers interface {
	// Holders returns the holders that a configured caller has.
	Holders(caller string) []string
	// Origin returns the name of a holder, "" for a stranger.
	Origin(holder string) string
	// Bounds says why the configured scope of a caller does not hold an attempt, nothing
	// where no scopes are configured.
	Bounds(caller, agent string, attempt powerbox.Attempt, now time.Time) []evidence.Reason
}

// Giving asks for a grant after a denied call: of its operation, to its caller.
type Giving struct {
	Record string `json:"record"` // id of the denied call
	// Holder and Principal are needed where the record does not tell them.
	Holder    string `json:"holder,omitempty"`
	Principal string `json:"principal,omitempty"`
	// Limits are by argument, an exact value or an object of max, min, in and not_in; no
	// other argument is admitted. Without them, exactly the recorded arguments are.
	Limits  json.RawMessage `json:"limits,omitempty"`
	Uses    int             `json:"uses,omitempty"`    // 1 without it
	Expires time.Time       `json:"expires,omitzero"`  // in an hour without it
	DryRun  bool            `json:"dry_run,omitempty"` // only say what would be given
}

// Grant is a grant that was made, or would be.
type Grant struct {
	Capability string          `json:"capability,omitempty"` // id; absent from a dry run
	Record     string          `json:"record"`
	Agent      string          `json:"agent"`
	Operation  string          `json:"operation"` // agent/grant/operation
	Caller     string          `json:"caller"`
	Holder     string          `json:"holder,omitempty"`
	Holders    []string        `json:"holders,omitempty"` // of the caller, where it has several
	Principal  string          `json:"principal,omitempty"`
	Recorded   bool            `json:"recorded"` // whether the arguments are on record
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	// Missing names the members of the request that a grant needs in addition.
	Missing   []string        `json:"missing,omitempty"`
	Authority json.RawMessage `json:"authority,omitempty"`
	Uses      int             `json:"uses"`
	Expires   time.Time       `json:"expires"`
	// Presented says that the denied call presented a capability. Its caller must repeat it
	// without one.
	Presented bool `json:"presented"`
}

// giveTime is how long a grant holds where no end is named.
const giveTime = time.Hour

// codeRepeated notes on a denial that it is one of many. It decides nothing.
const codeRepeated = "denials_repeated"

// givable are the reasons of a denial that a grant changes.
var givable = []string{
	gate.CodeCapabilityRequired, gate.CodeCapabilityUnknown, gate.CodeRevoked, gate.CodeByPolicy, gate.CodeLimit, codeRepeated,
	string(powerbox.CodeExpired), string(powerbox.CodeOperation), string(powerbox.CodeArgumentConstraint),
	string(powerbox.CodeArgumentMissing), string(powerbox.CodeArgumentUnknown),
}

// Givable says why no grant can follow a record, "" where one can: the record must be of a
// denied call of one operation, and each reason one that a grant changes.
func Givable(r evidence.Record) string {
	switch {
	case r.Details.OutcomeOf != "" || r.Decision != evidence.Deny || !audit.IsCall(r):
		return "the record is not of a denied call"
	case audit.IsFreeText(r):
		return "the call is free text and names no skill, so there is no exact operation to grant; let the caller name a skill"
	case r.Details.Attempt != "invocation" || strings.HasPrefix(r.Intent.Operation, "a2a.") || r.Details.Gate == nil:
		return "the call is not of an operation that the agent offers as a skill"
	case r.Details.Requester == "" || r.Details.Requester == "unknown":
		return "the caller proved no name, so nothing can be granted to it; let it authenticate"
	case r.Details.Principal == "":
		return "the call has no user, and a grant is for one; let the caller call in a session of its user"
	}
	for _, reason := range r.Details.Reasons {
		if !slices.Contains(givable, reason.Code) {
			return "a grant does not change this denial: " + reason.Code
		}
	}
	return ""
}

// give gives the caller of a denied call its operation, or says what would be given.
func (a *Admin) give(r *http.Request) (any, error) {
	var q Giving
	if err := decode(r, &q); err != nil {
		return nil, err
	}
	out, gift, err := a.gift(r, q)
	if err != nil {
		return nil, err
	}
	gift.By = operator(r)
	if len(out.Missing) > 0 {
		if !q.DryRun {
			return nil, status{http.StatusBadRequest, "missing: " + strings.Join(out.Missing, ", ") + "; the record does not tell them"}
		}
		return out, nil
	}
	do := a.Issuer.Give
	if q.DryRun {
		do = a.Issuer.Prepare
	}
	c, refusal, err := do(r.Context(), gift)
	switch {
	case refusal != nil:
		return nil, status{http.StatusConflict, refusal.Error()}
	case err != nil:
		return nil, err
	}
	out.Authority, out.Uses, out.Expires = c.Authority.JSON().AppendJSON(nil), c.Budgets.Uses, c.Expires
	if !q.DryRun {
		out.Capability = c.ID
	}
	return out, nil
}

// gift reads what a request asks for.
func (a *Admin) gift(r *http.Request, q Giving) (Grant, issuer.Gift, error) {
	record, kept, err := a.denied(r, q.Record)
	if err != nil {
		return Grant{}, issuer.Gift{}, err
	}
	out := Grant{
		Record: record.ID, Agent: record.AgentID, Operation: record.Intent.Operation, Caller: record.Details.Requester, Uses: max(q.Uses, 0),
		Expires: q.Expires, Presented: record.Details.Capability != "",
	}
	if q.Uses == 0 {
		out.Uses = 1
	}
	if q.Expires.IsZero() {
		out.Expires = a.Now().Add(giveTime).UTC().Truncate(time.Second)
	}
	out.Arguments, out.Recorded = recordedArguments(record, kept)
	if err := a.receiver(r.Context(), record, q, &out); err != nil {
		return out, issuer.Gift{}, err
	}
	limits, err := limitsOf(q, &out)
	if err != nil {
		return out, issuer.Gift{}, err
	}
	if out.Recorded && a.Callers != nil {
		if err := a.bounded(out); err != nil {
			return out, issuer.Gift{}, err
		}
	}
	g := issuer.Gift{
		Agent: out.Agent, Operation: out.Operation, Holder: out.Holder, Principal: out.Principal, Limits: limits, Uses: out.Uses, Until: out.Expires, Record: out.Record,
	}
	if out.Caller != out.Holder {
		g.Caller = out.Caller
	}
	return out, g, nil
}

// denied reads a denied call and its kept body, nil for none.
func (a *Admin) denied(r *http.Request, id string) (record evidence.Record, body []byte, err error) {
	err = a.Store.View(r.Context(), func(rd issuer.Reader) error {
		sealed, err := rd.Record(id)
		if err != nil {
			return err
		}
		if record = sealed.Record(); record.Details.BodyCommitment == "" {
			return nil
		}
		kept, err := rd.Body(id)
		if errors.Is(err, issuer.ErrNotFound) { // it was erased
			return nil
		}
		body = kept.Bytes
		return err
	})
	switch why := ""; {
	case errors.Is(err, issuer.ErrNotFound), err == nil && !at(r, record.AgentID):
		return record, nil, status{http.StatusNotFound, "no record " + id}
	case err != nil:
		return record, nil, err
	case a.elsewhere(record) != "":
		return record, nil, status{http.StatusConflict, a.elsewhere(record)}
	default:
		if why = Givable(record); why != "" {
			return record, nil, status{http.StatusConflict, why}
		}
	}
	return record, body, nil
}

// elsewhere says why a grant is not used where the call was decided, "" where it is.
func (a *Admin) elsewhere(r evidence.Record) string {
	if r.Details.Recorder != a.Issuer.Recorder() {
		return "the call was decided by " + r.Details.Recorder + ", which does not use grants of operators; let the caller request a capability"
	}
	for _, one := range a.Agents() {
		if one.ID == r.AgentID && one.Kind == "agent_auth" {
			return "the agent belongs to a person, who grants by hand at /hosts, or with powerbox grant add"
		}
	}
	return ""
}

// recordedArguments are the arguments of a call, and false where the record does not have
// their values: its body was not kept, and only their names and kinds are on record.
func recordedArguments(r evidence.Record, body []byte) (json.RawMessage, bool) {
	if body != nil {
		return body, true
	}
	v, err := powerbox.ParseValue(r.Details.Arguments)
	members, ok := v.Members()
	if err != nil || !ok {
		return nil, false
	}
	kinds := []powerbox.Kind{powerbox.KindNull, powerbox.KindBool, powerbox.KindNumber, powerbox.KindString, powerbox.KindList, powerbox.KindObject}
	told := func(m powerbox.Member) bool {
		text, ok := m.Value.Text()
		return !ok || !slices.ContainsFunc(kinds, func(k powerbox.Kind) bool { return k.String() == text })
	}
	if len(members) > 0 && !slices.ContainsFunc(members, told) {
		return nil, false
	}
	return r.Details.Arguments, true
}

// limitsOf is the shape of a grant: the typed limits, or exactly the recorded arguments.
func limitsOf(q Giving, out *Grant) (powerbox.Shape, error) {
	if len(q.Limits) > 0 {
		v, err := powerbox.ParseValue(q.Limits)
		if err != nil {
			return powerbox.Shape{}, status{http.StatusBadRequest, "limits: " + err.Error()}
		}
		if v.Kind() != powerbox.KindObject {
			return powerbox.Shape{}, status{http.StatusBadRequest, `limits: want a JSON object by argument, such as {"title": "Report", "amount": {"max": 100}}; {} admits no arguments`}
		}
		open, err := agentauth.Options{}.ParseConstraints(v)
		if err != nil {
			return powerbox.Shape{}, status{http.StatusBadRequest, "limits: " + strings.TrimPrefix(err.Error(), "constraints: ")}
		}
		return powerbox.NewShape(powerbox.RestNone, open.Fields()...)
	}
	if !out.Recorded {
		out.Missing = append(out.Missing, "limits")
		return powerbox.Shape{}, nil
	}
	v, err := powerbox.ParseValue(out.Arguments)
	members, ok := v.Members()
	if err != nil || !ok {
		return powerbox.Shape{}, status{http.StatusConflict, "the recorded arguments are not an object; type limits"}
	}
	fields := make([]powerbox.Field, len(members))
	for n, m := range members {
		fields[n] = powerbox.Field{Name: m.Name, Constraint: powerbox.ExactValue{Value: m.Value}, Required: true}
	}
	return powerbox.NewShape(powerbox.RestNone, fields...)
}

// receiver finds the holder and the user of a denied call. The record has the user's
// pseudonym, so a named user is the call's or is refused.
func (a *Admin) receiver(ctx context.Context, r evidence.Record, q Giving, out *Grant) error {
	d := r.Details
	out.Holder, out.Principal = q.Holder, q.Principal
	if c, err := a.Issuer.OnRecord(ctx, d.Capability); err == nil && c.ID != "" && a.Issuer.Pseudonym(c.Agent, c.Principal) == d.Principal {
		out.Holder, out.Principal = c.Holder, c.Principal
	}
	holders := []string{d.Requester}
	if audit.IsNamed(d.Requester) && a.Callers != nil {
		holders = a.Callers.Holders(d.Requester)
	}
	switch {
	case out.Holder != "" && audit.IsNamed(d.Requester) && a.Callers != nil && a.Callers.Origin(out.Holder) == d.Requester:
	case len(holders) == 0:
		return status{http.StatusConflict, "no caller " + d.Requester + " is configured by one holder; name the holder, which a record of its calls has"}
	case out.Holder != "" && !slices.Contains(holders, out.Holder):
		return status{http.StatusBadRequest, "holder is not one of the caller's: " + strings.Join(holders, ", ")}
	case out.Holder == "" && len(holders) == 1:
		out.Holder = holders[0]
	case out.Holder == "":
		out.Missing = append(out.Missing, "holder")
	}
	if len(holders) > 1 {
		out.Holders = holders
	}
	if out.Principal == "" {
		name, err := a.named(ctx, r)
		if err != nil {
			return err
		}
		if out.Principal = name; name == "" {
			out.Missing = append(out.Missing, "principal")
			return nil
		}
	}
	if a.Issuer.Pseudonym(r.AgentID, out.Principal) != d.Principal {
		return status{http.StatusBadRequest, "principal is not the user of the denied call; want the one whose name on record is " + d.Principal}
	}
	return nil
}

// named finds the user of a record among those whom the server knows: the users of what the
// caller holds, and the people who can log in.
func (a *Admin) named(ctx context.Context, r evidence.Record) (string, error) {
	held, _, err := a.Issuer.InForce(ctx, issuer.LiveQuery{Agent: r.AgentID, Holder: r.Details.Requester, Limit: capabilityPage})
	if err != nil {
		return "", err
	}
	var names []string
	for _, c := range held {
		names = append(names, c.Principal)
	}
	if a.People != nil {
		all, err := a.People.People(ctx)
		if err != nil {
			return "", err
		}
		for _, one := range all {
			names = append(names, one.Principal)
		}
	}
	for _, name := range names {
		if a.Issuer.Pseudonym(r.AgentID, name) == r.Details.Principal {
			return name, nil
		}
	}
	return "", nil
}

// bounded refuses a grant under which the same call would be denied still, by the scope of
// its caller.
func (a *Admin) bounded(g Grant) error {
	op, err := powerbox.ParseOperation(g.Operation)
	if err != nil {
		return status{http.StatusConflict, err.Error()}
	}
	args, err := powerbox.ParseValue(g.Arguments)
	if err != nil {
		return status{http.StatusConflict, err.Error()}
	}
	attempt, err := powerbox.Invocation(op, args)
	if err != nil {
		return status{http.StatusConflict, err.Error()}
	}
	if why := a.Callers.Bounds(g.Caller, g.Agent, attempt, a.Now()); len(why) > 0 {
		return status{http.StatusConflict, "scopes." + g.Caller + "." + g.Agent + " of the configuration does not allow it, and a grant does not widen that: " + why[0].Message}
	}
	return nil
}
