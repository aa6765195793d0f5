package policy

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	cedar "github.com/cedar-policy/cedar-go"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
)

// Principal is the user on whose behalf something is asked, as the identity
// provider describes it. Nothing of it may come from the agent that asks.
type Principal struct {
	ID         string // required
	Groups     []string
	Roles      []string
	Attributes map[string]powerbox.Value
}

// Resource is one resource as policies see it: an item of the catalogue.
type Resource = catalogue.Item

// Answer says what the policies say. The zero Answer is a denial.
type Answer struct {
	Allow bool
	// Policies are the places (file:line, in order of the files) of the
	// policies that decided: the permits that apply or, of a denial, the
	// forbids that do and the policies that failed. None where nothing
	// permits.
	Policies []string
	// MaximumLifetime is the smallest that a deciding permit sets; 0 is none
	// (SEP-8).
	MaximumLifetime time.Duration
	// Approval is [ApprovalHuman] where a deciding permit wants it, else "".
	Approval string
	// Reason is one sentence for records and operators. It names no resource.
	Reason string
}

// Engine answers questions. It does not change once it is loaded; all methods
// can be used concurrently.
type Engine struct {
	vocabulary *vocabulary
	statements []*statement // in order of file and position
	index      *index
	standing   standing
	digest     string
}

// Load reads files of Cedar policies, by name, and checks each policy against
// the vocabulary. All problems are reported at once, each with its file, its
// line and what would be right. Without files the Engine permits nothing. When
// the catalogue or the offers change, load again.
func Load(files map[string][]byte, vocabulary Vocabulary) (*Engine, error) {
	v, err := newVocabulary(vocabulary)
	if err != nil {
		return nil, err
	}
	e := &Engine{vocabulary: v, digest: digestOf(files)}
	check := newChecker(v)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		statements, err := readFile(name, files[name])
		if err != nil {
			errs = append(errs, err)
		}
		for _, s := range statements {
			for _, err := range check.check(s.policy, s.head) {
				errs = append(errs, fmt.Errorf("%s: %w", s.place, err))
			}
		}
		e.statements = append(e.statements, statements...)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	e.index = newIndex(e.statements)
	e.standing = newStanding(v, e.index)
	return e, nil
}

// Digest identifies the policies: SHA-256 over the files in order of their
// names, as "sha256:" and 64 hexadecimal digits.
func (e *Engine) Digest() string { return e.digest }

// Schema returns the Cedar schema that policies about resources of all
// collections are checked against, for editors.
func (e *Engine) Schema() string {
	attributes, _ := e.vocabulary.shared(e.vocabulary.within("", ""))
	return e.vocabulary.schema(attributes)
}

// Permits says whether a principal may do an operation, by its qualified name,
// to a resource, or, where r is nil, to the agent itself.
func (e *Engine) Permits(p Principal, operation string, r *Resource, agent, grant string) Answer {
	w, reason := e.asking(p, operation, agent, grant)
	if reason == "" {
		w, reason = e.about(w, agent, r)
	}
	if reason != "" {
		return Answer{Reason: reason}
	}
	return e.decide(&w, e.index.candidates(w.principals, w.actions, w.resources))
}

// Filter returns the resources to which a principal may do an operation, in
// their order. Its answer allows where there is one, and then joins the
// answers for those that are returned: all their policies, the smallest
// lifetime, approval where one wants it. To resolve a query, ask with all the
// agent's resources, let the query select, and ask again with what it selected:
// that second answer is the one for the request.
//
// It asks about every resource, whatever the answers are, so that the time it
// takes is a matter of how many there are and not of how many are hidden
// (SEP-5).
func (e *Engine) Filter(p Principal, operation, agent, grant string, resources []Resource) ([]Resource, Answer) {
	base, reason := e.asking(p, operation, agent, grant)
	if reason != "" {
		return nil, Answer{Reason: reason}
	}
	var permitted []Resource
	var joined Answer
	for i := range resources {
		w, reason := e.about(base, agent, &resources[i])
		if reason != "" {
			continue
		}
		a := e.decide(&w, e.index.candidates(w.principals, w.actions, w.resources))
		if a.Allow {
			permitted = append(permitted, resources[i])
			joined = joined.join(a)
		}
	}
	if len(permitted) == 0 {
		return nil, Answer{Reason: "no policy permits it for any resource"}
	}
	joined.Policies = e.inOrder(joined.Policies)
	return permitted, joined
}

// inOrder returns places in the order of their policies.
func (e *Engine) inOrder(places []string) []string {
	ordered := make([]string, 0, len(places))
	for _, s := range e.statements {
		if slices.Contains(places, s.place) {
			ordered = append(ordered, s.place)
		}
	}
	return ordered
}

// join adds the answer for one more resource.
func (a Answer) join(b Answer) Answer {
	for _, place := range b.Policies {
		if !slices.Contains(a.Policies, place) {
			a.Policies = append(a.Policies, place)
		}
	}
	return Answer{
		Allow: true, Policies: a.Policies, Reason: "permitted",
		MaximumLifetime: shorter(a.MaximumLifetime, b.MaximumLifetime),
		Approval:        stricter(a.Approval, b.Approval),
	}
}

// shorter returns the smaller of two lifetimes of which 0 is none.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func stricter(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// Veto reports whether policy takes back a use that was otherwise allowed: at
// least one of the resources is not permitted or, without resources, the agent
// itself is not. It is [Engine.Permits] again, for the moment of use; false
// gives nothing, since everything else must allow the use too.
func (e *Engine) Veto(p Principal, operation, agent, grant string, resources ...Resource) bool {
	if len(resources) == 0 {
		return !e.Permits(p, operation, nil, agent, grant).Allow
	}
	permitted, _ := e.Filter(p, operation, agent, grant, resources)
	return len(permitted) != len(resources)
}

// numbered lets Cedar see statements under their positions in the list, without the
// part of their scopes that the index has answered.
type numbered []*statement

// All implements [cedar.PolicyIterator].
func (n numbered) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, s := range n {
			if !yield(cedar.PolicyID(s.place), s.rest) {
				return
			}
		}
	}
}

// decide asks Cedar about statements whose heads fit.
func (e *Engine) decide(w *world, statements []*statement) Answer {
	if a, ok := shortcut(w, statements); ok {
		return a
	}
	return answer(numbered(statements), w, w.request(), statements)
}

// answer asks Cedar and reads the annotations of what decided.
func answer(policies cedar.PolicyIterator, entities cedar.EntityGetter, request cedar.Request, statements []*statement) Answer {
	decision, diagnostic := cedar.Authorize(policies, entities, request)
	if len(diagnostic.Errors) > 0 {
		var failed []string
		for _, f := range diagnostic.Errors {
			failed = append(failed, string(f.PolicyID))
		}
		return Answer{Policies: failed, Reason: fmt.Sprintf("policy %s could not be evaluated", failed[0])}
	}
	var deciding []string
	for _, reason := range diagnostic.Reasons {
		deciding = append(deciding, string(reason.PolicyID))
	}
	return concluded(decision == cedar.Allow, deciding, statements)
}

// concluded is the answer of the policies that decided, at their places.
func concluded(allow bool, deciding []string, statements []*statement) Answer {
	a := Answer{Allow: allow, Policies: deciding}
	switch {
	case a.Allow:
		a.Reason = "permitted"
		a.oblige(statements)
	case len(a.Policies) > 0:
		a.Reason = fmt.Sprintf("forbidden by policy %s", a.Policies[0])
	default:
		a.Reason = "no policy permits it"
	}
	return a
}

// oblige adds what the deciding permits demand. Both lists are in one order.
func (a *Answer) oblige(statements []*statement) {
	next := 0
	for _, s := range statements {
		if next == len(a.Policies) {
			return
		}
		if s.place != a.Policies[next] {
			continue
		}
		a.MaximumLifetime = shorter(a.MaximumLifetime, s.lifetime)
		a.Approval = stricter(a.Approval, s.approval)
		next++
	}
}

// Users returns the principals that policies name one by one, each once, in order.
func (e *Engine) Users() []string {
	var all []string
	for _, s := range e.statements {
		for _, p := range s.head.principal {
			if p.Type == "User" && !slices.Contains(all, string(p.ID)) {
				all = append(all, string(p.ID))
			}
		}
	}
	slices.Sort(all)
	return all
}

// AsksPeople reports whether any policy leaves something to a person.
func (e *Engine) AsksPeople() bool {
	return slices.ContainsFunc(e.statements, func(s *statement) bool { return s.approval != "" })
}
