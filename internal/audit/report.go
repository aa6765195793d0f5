// Package audit reads records: who called what, the used capabilities, the hops of a
// task, the actions of an agent, and the same as OCSF. It counts and selects; commands
// print.
package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/plain"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

// Use counts the calls of one caller to one operation of one agent.
type Use struct {
	Caller    string   `json:"caller"` // configured name, holder id, or unknown
	Agent     string   `json:"agent"`
	Operation string   `json:"operation"` // grant/operation, free text, or unknown
	Calls     int      `json:"calls"`
	Allowed   int      `json:"allowed"`
	Denied    int      `json:"denied"`
	Observed  int      `json:"observed"` // let through by mode observe alone
	AtScoped  level    `json:"scoped"`
	AtRequire level    `json:"require"`
	Reasons   []string `json:"reasons"` // codes of the denials, and of those there would be

	grantable        int // calls that continued and that a scope can cover
	own, ownMendable int // calls that are counted here and at no other operation, and those of them that a scope would permit
}

// level counts the verdicts that a mode would have given on the calls.
type level struct {
	// Denied could not continue as things are.
	Denied int `json:"denied"`
	// Mendable are those of the denied that only lack what the caller could
	// have: a scope, or a capability.
	Mendable int `json:"mendable"`
	// Unknown were allowed without a check of this mode.
	Unknown int `json:"unknown"`
}

// Report is who called what.
type Report struct {
	Since time.Time `json:"since"`
	Uses  []Use     `json:"uses"`
	// Frozen are the targets that operators have frozen now.
	Frozen []Freeze `json:"frozen"`
	// Other counts records that decide about no call, by class.
	Other Others `json:"other"`
}

// Summary counts calls, by caller, agent and operation.
type Summary map[[3]string]*Use

// Add counts a call. Records of issuing and of outcomes are none.
func (s Summary) Add(r evidence.Record) {
	if !IsCall(r) {
		return
	}
	for i, operation := range operationsOf(r) {
		k := [3]string{r.Details.Requester, r.AgentID, operation}
		if s[k] == nil {
			s[k] = &Use{Caller: k[0], Agent: k[1], Operation: k[2], Reasons: []string{}}
		}
		s[k].count(r)
		if i == 0 { // a call that needs several operations is one call
			s[k].own++
			if wouldScoped(r) == mendable {
				s[k].ownMendable++
			}
		}
	}
}

// List returns the counted uses, sorted by caller, agent and operation.
func (s Summary) List() []Use {
	out := []Use{}
	for _, u := range s {
		slices.Sort(u.Reasons)
		out = append(out, *u)
	}
	sorting.Sort(out, func(a, b Use) int {
		return cmp.Or(strings.Compare(a.Caller, b.Caller), strings.Compare(a.Agent, b.Agent), strings.Compare(a.Operation, b.Operation))
	})
	return out
}

// unnamed is the operation of a call that names nothing that is configured.
const unnamed = "unknown"

// operationsOf are the operations that a call needed, as scopes name them. A2A's own
// operations on a message come with every operation and are left out, unless the call
// was about nothing else.
func operationsOf(r evidence.Record) []string {
	if IsFreeText(r) {
		return []string{FreeTextCall}
	}
	var names []string
	if r.Details.Gate != nil {
		for _, name := range r.Details.Gate.Required {
			if name, ok := strings.CutPrefix(name, r.AgentID+"/"); ok {
				names = append(names, name)
			}
		}
	}
	if len(names) > 0 {
		return names
	}
	if action.OfSession(r.ActionType) {
		return []string{SessionCall}
	}
	if name := r.Intent.Operation; strings.HasPrefix(name, "a2a.") && name != messageOperation {
		return []string{name}
	}
	return []string{unnamed}
}

func (u *Use) count(r evidence.Record) {
	u.Calls++
	for _, reason := range r.Details.Reasons {
		if !slices.Contains(u.Reasons, reason.Code) {
			u.Reasons = append(u.Reasons, reason.Code)
		}
	}
	switch r.Decision {
	case evidence.Allow:
		u.Allowed++
	case evidence.Deny:
		u.Denied++
	case evidence.Abstain:
		if r.OutcomeStatus != "" || !Waits(r.Decision, r.Details.Reasons) {
			u.Observed++ // a call that waits for a person is decided again
		}
	}
	scoped := wouldScoped(r)
	u.AtScoped.add(scoped)
	if r.Decision != evidence.Deny && scoped != refused {
		u.grantable++
	}
	u.AtRequire.add(wouldRequire(r))
}

// outcome is the verdict that a mode would have given on one call.
type outcome uint8

const (
	goesOn   outcome = iota
	untold           // the record does not say
	mendable         // denied for want of a scope or a capability that there could be
	refused          // denied whatever the caller brings
)

func (l *level) add(o outcome) {
	switch o {
	case goesOn:
	case untold:
		l.Unknown++
	case mendable:
		l.Denied++
		l.Mendable++
	case refused:
		l.Denied++
	}
}

// underCapability reports a call that was decided on a capability.
func underCapability(r evidence.Record) bool {
	return r.Details.Capability != "" && r.Decision != evidence.Abstain
}

// wouldScoped returns what scoped would have done: scoped denies every reason that
// observe noted beside the missing capability (see gate).
func wouldScoped(r evidence.Record) outcome {
	if r.Decision == evidence.Allow {
		if strings.HasSuffix(r.Details.Mode, "/"+string(gate.OnAmbient)) {
			return untold // the fallback of prefer is not held against a scope
		}
		return goesOn
	}
	return worst(r, r.Decision == evidence.Deny, func(code string) outcome {
		switch code {
		case gate.CodeCapabilityRequired, gate.CodeUndeclaredAmbient, "free_text_unsafe":
			return goesOn
		case gate.CodeScope:
			return ofNamed(r)
		}
		return refused
	})
}

// wouldRequire returns what mode require would have done. A call without a capability is
// not always refused for good: a grant can permit it where the caller is known and the
// operation is offered.
func wouldRequire(r evidence.Record) outcome {
	if underCapability(r) && r.Decision == evidence.Allow {
		return goesOn
	}
	if r.Decision == evidence.Allow {
		return ofKnown(r)
	}
	return worst(r, true, func(code string) outcome {
		switch code {
		case gate.CodeCapabilityRequired, gate.CodeUndeclaredAmbient, gate.CodeScope, gate.CodeRevoked, string(powerbox.CodeExpired):
			return ofKnown(r)
		case "free_text_unsafe":
			return goesOn
		}
		return refused
	})
}

// worst is the worst outcome of the reasons of a call.
func worst(r evidence.Record, denied bool, of func(code string) outcome) outcome {
	var out outcome
	for _, reason := range r.Details.Reasons {
		out = max(out, of(reason.Code))
	}
	if denied && len(r.Details.Reasons) == 0 {
		return refused
	}
	return out
}

// ofKnown is mendable for a caller that proved its identity, and refused for every
// other.
func ofKnown(r evidence.Record) outcome {
	if r.Details.Requester == unknownCaller || r.Details.Requester == "" {
		return refused
	}
	return mendable
}

// ofNamed is mendable for a caller with a configured name, since scopes are by those
// names, and refused for every other.
func ofNamed(r evidence.Record) outcome {
	if !IsNamed(r.Details.Requester) {
		return refused
	}
	return mendable
}

// unknownCaller is the requester of a record whose caller had no credentials.
const unknownCaller = "unknown"

// IsNamed reports whether a requester is a name of the configuration. A requester that
// proved a key, client or certificate without having a name has a colon in it.
func IsNamed(requester string) bool {
	return requester != "" && requester != unknownCaller && !strings.Contains(requester, ":")
}

// Text says what a level would do: how many it denies, and how many of these
// only want what the caller could have.
func (l level) Text(want string) string {
	var parts []string
	if n := l.Denied - l.Mendable; n > 0 {
		parts = append(parts, fmt.Sprintf("deny %d", n))
	}
	if l.Mendable > 0 {
		parts = append(parts, fmt.Sprintf("want %s for %d", want, l.Mendable))
	}
	if l.Unknown > 0 {
		parts = append(parts, fmt.Sprintf("not known for %d", l.Unknown))
	}
	if len(parts) == 0 {
		return "allow"
	}
	return strings.Join(parts, ", ")
}

// nameSkill says how callers of free text name the skill that they mean.
const nameSkill = "send it to the skill's URL (.../skills/SKILL), as a data part {\"skill\", \"arguments\"}, or with powerbox call --skill"

// Advice says what stands between these calls and more enforcement.
func (r Report) Advice() []string {
	var lines []string
	var unnamedCalls, builtIn, anonymous, unnamedOperation, scope, free int
	for _, u := range r.Uses {
		if u.Operation == FreeTextCall {
			free += u.own
		} else {
			scope += u.ownMendable
		}
		switch {
		case u.Caller == unknownCaller:
			anonymous += u.own
		case IsBuiltIn(u.Caller):
			builtIn += u.own
		case !IsNamed(u.Caller):
			unnamedCalls += u.own
		}
		if u.Operation == unnamed {
			unnamedOperation += u.own
		}
	}
	add := func(n int, which string) {
		if n > 0 {
			lines = append(lines, plain.Count(n, "call")+" "+which)
		}
	}
	add(scope, "outside the caller's scope: powerbox report --grants prints scopes that cover them")
	add(free, "in free text, which names no skill: "+nameSkill)
	add(unnamedCalls, "of callers without a name: name them in identity.callers")
	add(builtIn, "of built-in users, whom identity.callers cannot name: "+OwnKey)
	add(anonymous, "of callers without credentials: they need a session, a key or a certificate before anything can be granted to them")
	add(unnamedOperation, "to nothing that is configured: see powerbox evidence list, and skills in the configuration")
	return lines
}

// GrantFile is the scopes section that covers the observed calls.
type GrantFile struct {
	Scopes map[string]map[string][]string `json:"scopes"`
	// Unnamed callers proved something but have no name in the configuration.
	Unnamed map[string][]string `json:"unnamed"`
	// Left counts calls that no scope can cover, by reason.
	Left map[string]int `json:"left_out"`
}

// YAML is the section scopes of the configuration, "" for no scopes.
func (g GrantFile) YAML() string {
	if len(g.Scopes) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("scopes:\n")
	for _, caller := range slices.Sorted(maps.Keys(g.Scopes)) {
		fmt.Fprintf(&b, "  %s:\n", caller)
		for _, agent := range slices.Sorted(maps.Keys(g.Scopes[caller])) {
			fmt.Fprintf(&b, "    %s:\n", agent)
			for _, operation := range g.Scopes[caller][agent] {
				fmt.Fprintf(&b, "      - %s\n", strconv.Quote(operation))
			}
		}
	}
	return b.String()
}

// Grants are scopes that cover the observed calls.
func (r Report) Grants() GrantFile {
	g := GrantFile{Scopes: map[string]map[string][]string{}, Unnamed: map[string][]string{}, Left: map[string]int{}}
	for _, u := range r.Uses {
		switch {
		case strings.HasPrefix(u.Operation, "a2a."), u.Operation == SessionCall:
			// Comes with every scope.
		case u.Operation == FreeTextCall:
			g.Left["free text names no skill; "+nameSkill] += u.Calls
		case u.Operation == unnamed:
			g.Left["nothing that is configured was named"] += u.Calls
		case u.Caller == unknownCaller:
			if u.own > 0 {
				g.Left["the caller had no credentials"] += u.own
			}
		case !IsNamed(u.Caller):
			g.Unnamed[u.Caller] = append(g.Unnamed[u.Caller], u.Agent+": "+u.Operation)
		case u.grantable == 0:
			g.Left["they were denied, or would be whatever the scope"] += u.Calls
		default:
			if g.Scopes[u.Caller] == nil {
				g.Scopes[u.Caller] = map[string][]string{}
			}
			g.Scopes[u.Caller][u.Agent] = append(g.Scopes[u.Caller][u.Agent], u.Operation)
		}
	}
	return g
}

// IsBuiltIn reports whether a requester is a built-in user that called without a key. No rule of
// identity.callers can name it.
func IsBuiltIn(requester string) bool { return strings.HasPrefix(requester, "dev:") }

// OwnKey tells how to give a provable name to an agent that has none.
const OwnKey = "give the calling agent a key (powerbox keys new FILE), have it call with it, and add {agent: NAME, key: THUMBPRINT} to identity.callers"

// NameCaller says how a caller without a name gets one.
func NameCaller(holder string) string {
	if IsBuiltIn(holder) {
		return fmt.Sprintf("%s is a built-in user and no agent, so identity.callers cannot name it; %s, and observe again", holder, OwnKey)
	}
	return fmt.Sprintf("%s has no name; add it to identity.callers, as %s, and observe again", holder, CallerRule(holder))
}

// CallerRule is the line of identity.callers that names a holder.
func CallerRule(holder string) string {
	kind, value, _ := strings.Cut(holder, ":")
	switch kind {
	case "key", "client", "mtls":
		return fmt.Sprintf("{agent: NAME, %s: %s}", kind, strconv.Quote(value))
	case "spiffe":
		return fmt.Sprintf("{agent: NAME, spiffe: %s}", strconv.Quote(holder))
	}
	return "{agent: NAME, key: THUMBPRINT} with a key of its own"
}
