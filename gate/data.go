package gate

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/token"
)

// CodeDataOrigin is the reason where data may not flow into a call, and codeDataObserved the
// note of that where an operator only looks on (ADR 149).
const (
	CodeDataOrigin   = "data_origin"
	codeDataObserved = "data_origin_observed"
)

// Label says where data comes from, whether it can be relied on, and whether it may leave.
type Label struct {
	Source       string
	Untrusted    bool
	Confidential bool
}

// Effect is what a rule makes of a call.
type Effect string

// The effects.
const (
	Pass      Effect = ""
	AskPerson Effect = "ask"
	Refuse    Effect = "refuse"
)

// Sink says which data may flow into the calls of an operation.
type Sink struct {
	Untrusted    Effect   // after untrusted data was read
	Confidential Effect   // after confidential data was read
	Deciding     []string // arguments that the rule for untrusted data looks at; nil for all
	From         []From
	Otherwise    Effect // for an argument of From whose value comes from somewhere else
}

// Asks reports whether a call of the operation may have to wait for a person.
func (s Sink) Asks() bool {
	return s.Untrusted == AskPerson || s.Confidential == AskPerson || len(s.From) > 0 && s.Otherwise == AskPerson
}

// Unasked is the rule where no person can be asked: it refuses what it would ask about.
func (s Sink) Unasked() Sink {
	for _, e := range []*Effect{&s.Untrusted, &s.Confidential, &s.Otherwise} {
		if *e == AskPerson {
			*e = Refuse
		}
	}
	return s
}

// From says that an argument may hold what results of an operation hold at a path.
type From struct {
	Argument string
	Operation,
	Path string
}

// Reading is who has read something: the holders of a call, their user where the session
// proves it, and the task that the caller names.
type Reading struct {
	Holders         []string
	Principal, Task string
}

// Reached is a label of data that a reader got, and since when.
type Reached struct {
	Label
	First time.Time
}

// Value is one value at a path of a result.
type Value struct {
	Operation, Path string
	Value           powerbox.Value
}

// DataBook tells what callers have read.
type DataBook interface {
	Reached(ctx context.Context, by Reading) ([]Reached, error)
	// HasRead reports for every value whether the reader has read it in that task.
	HasRead(ctx context.Context, by Reading, values []Value) ([]bool, error)
}

// DataKeeper keeps what callers read.
type DataKeeper interface {
	DataBook
	// Note keeps a label of data that is about to reach a reader.
	Note(ctx context.Context, by Reading, l Label) error
	// Earn keeps values of a trusted result.
	Earn(ctx context.Context, by Reading, values []Value) error
}

// Bounds of the values that one result leaves.
const (
	maxEarned      = 1000 // values
	maxEarnedBytes = 1024 // of one value
)

// Flow is the origin of what an operation answers, and what may flow into its calls.
type Flow struct {
	Yields Label
	Sink   Sink
	Paths  []string // of results, at which values can be earned
}

// Earned returns the values of results of an operation that a rule can ask about: the
// strings and numbers at the paths, where the results are trusted.
func (f Flow) Earned(operation string, results ...powerbox.Value) []Value {
	if f.Yields.Untrusted {
		return nil
	}
	var out []Value
	for _, path := range f.Paths {
		for _, result := range results {
			for _, v := range valuesAt(result, path) {
				if len(out) < maxEarned && len(v.String()) <= maxEarnedBytes {
					out = append(out, Value{Operation: operation, Path: path, Value: v})
				}
			}
		}
	}
	return out
}

// valuesAt returns the strings and numbers at a path of a result: a JSON pointer in which * is
// every element of an array.
func valuesAt(v powerbox.Value, path string) []powerbox.Value {
	here := []powerbox.Value{v}
	for name := range jsontext.Pointer(path).Tokens() {
		var next []powerbox.Value
		for _, one := range here {
			if elements, isList := one.Elements(); isList && name == "*" {
				next = append(next, elements...)
			} else if member, ok := one.Get(name); ok {
				next = append(next, member)
			}
		}
		here = next
	}
	return slices.DeleteFunc(slices.Clone(here), func(v powerbox.Value) bool {
		return v.Kind() != powerbox.KindString && v.Kind() != powerbox.KindNumber
	})
}

// Data are the rules about the origin of data that a call is held to.
type Data struct {
	Book            DataBook
	Observe         bool // note what would be refused, and refuse nothing
	Principal, Task string
	// Readers read what the call answers, beside the holders that it proves.
	Readers []string
	// Yields is the label of what the call answers, nil where that is no data. The gate only
	// keeps it for the caller of [Gate.Check].
	Yields *Label
	// Sink returns the rule of an operation; the zero one for none.
	Sink func(op powerbox.Operation) Sink
	// Delegates reports whether a holder hands work to agents and reads no results, by the
	// operator's word: what it narrows a capability to is named by a person.
	Delegates func(holder string) bool
}

// Read is what the caller of a call had read before it.
type Read struct {
	By     Reading
	Labels []Reached
}

// unknownOrigin is what a caller has read who cannot be told from others.
var unknownOrigin = []Reached{{Label: Label{Source: "unknown", Untrusted: true}}}

// readers are the holders that a call comes from or through, without delegates, which read
// nothing. What one reader has read, the others may know.
func (c *Call) readers(held Held) []string {
	through := slices.DeleteFunc(slices.Clone(held.Through), c.Ask.Data.Delegates)
	var out []string
	for _, holder := range slices.Concat(through, []string{held.Holder, c.Caller.Holder}, c.Ask.Data.Readers) {
		if holder != "" && !slices.Contains(out, holder) {
			out = append(out, holder)
		}
	}
	return out
}

// pinning is an authority that names values, and until when it was made.
type pinning struct {
	authority powerbox.Authority
	made      time.Time
}

// pinned are the authorities that name values for a call under a capability: its root, and
// what a holder narrowed that reads nothing. Any other holder can narrow what it holds to a
// value that it has read.
func (c *Call) pinned(held Held) []pinning {
	if held.Foreign != "" {
		return nil
	}
	issued := held.OnRecord != "" && held.OnRecord == held.Root && !held.Issued.IsZero() // not narrowed on record
	made := held.Issued.Add(time.Second)                                                 // tokens have whole seconds
	if len(held.Chain) == 0 {
		if issued && len(held.Through) == 0 {
			return []pinning{{held.Authority, made}}
		}
		return nil
	}
	chain, err := token.ParseChain(held.Chain)
	if err != nil {
		return nil
	}
	var out []pinning
	links, holders := chain.Describe(), append(slices.Clone(held.Through), held.Holder)
	if holders = holders[max(0, len(holders)-len(links)):]; len(holders) != len(links) {
		return nil
	}
	for n, link := range links {
		p := pinning{made: made}
		if n > 0 {
			p.made = time.Time{}
		}
		if n == 0 && !issued || n > 0 && !c.Ask.Data.Delegates(holders[n-1]) {
			continue
		}
		if p.authority, err = powerbox.NewAuthority(powerbox.Window{Until: link.Expires}, 0, link.Tools...); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// names reports whether the authority names exactly the value of an argument, and did so
// before any of the labels was reached.
func (p pinning) names(op powerbox.Operation, argument string, value powerbox.Value, labels []Reached) bool {
	for _, l := range labels {
		if l.Untrusted && l.First.Before(p.made) {
			return false
		}
	}
	shape, ok := p.authority.Shape(op)
	if !ok {
		return false
	}
	field, ok := shape.Field(argument)
	return ok && lists(field.Constraint) && field.Constraint.Admits(value)
}

// lists reports whether a constraint admits only values that it names.
func lists(c powerbox.Constraint) bool {
	switch c := c.(type) {
	case powerbox.ExactValue, powerbox.OneOf, powerbox.Subset:
		return true
	case powerbox.All:
		return slices.ContainsFunc(c.Constraints, lists)
	default:
		return false
	}
}

// flows returns why data may not flow into a call, and notes in v what its caller has read
// and whether a person must be asked.
func (g *Gate) flows(ctx context.Context, call *Call, pinned func() []pinning, v *Verdict) []evidence.Reason {
	d := call.Ask.Data
	if d == nil {
		return nil
	}
	read := &Read{By: Reading{Holders: call.readers(v.Held), Principal: d.Principal, Task: d.Task}, Labels: unknownOrigin}
	v.Data = read
	var err error
	if len(read.By.Holders) > 0 {
		read.Labels, err = d.Book.Reached(ctx, read.By)
	}
	f := flow{call: call, read: read, pinned: pinned()}
	if err == nil {
		err = f.look(ctx)
	}
	if err != nil && !d.Observe {
		return untold("what the caller has read cannot be told now; try again in a moment")
	}
	if err == nil {
		f.judge()
	}
	if d.Observe {
		v.observed = observedOnly(f.refused, f.asked)
		return nil
	}
	v.asks = f.asked
	return f.refused
}

// observedOnly words what would have been done with a call.
func observedOnly(refused, asked []evidence.Reason) []evidence.Reason {
	var out []evidence.Reason
	for n, r := range slices.Concat(refused, asked) {
		would := "would be refused: "
		if n >= len(refused) {
			would = "would wait for a person: "
		}
		r.Code, r.Message = codeDataObserved, would+r.Message
		out = append(out, r)
	}
	return out
}

// flow judges one call.
type flow struct {
	call   *Call
	read   *Read
	pinned []pinning
	earned map[string]bool // values that were read from where a rule wants them

	refused, asked []evidence.Reason
}

// into is one operation of a call with the arguments that reach it.
type into struct {
	op        powerbox.Operation
	arguments powerbox.Value
	free      bool // content that names no arguments
}

func (f *flow) intos() []into {
	var out []into
	for _, a := range f.call.Attempts {
		if !a.IsAdmission() {
			out = append(out, into{op: a.Operation(), arguments: a.Arguments()})
			continue
		}
		for _, op := range a.Required() {
			out = append(out, into{op: op, free: true})
		}
	}
	return out
}

// look asks which values of the call were read from where the rules want them.
func (f *flow) look(ctx context.Context) error {
	var values []Value
	for _, i := range f.intos() {
		for _, from := range f.call.Ask.Data.Sink(i.op).From {
			argument, _ := i.arguments.Get(from.Argument)
			for _, part := range parts(argument) {
				values = append(values, Value{Operation: from.Operation, Path: from.Path, Value: part})
			}
		}
	}
	if len(values) == 0 || len(f.read.By.Holders) == 0 {
		return nil
	}
	has, err := f.call.Ask.Data.Book.HasRead(ctx, f.read.By, values)
	if err != nil {
		return err
	}
	f.earned = make(map[string]bool, len(values))
	for n, v := range values {
		f.earned[v.key()] = f.earned[v.key()] || has[n]
	}
	return nil
}

func (v Value) key() string { return v.Operation + "\x00" + v.Path + "\x00" + v.Value.String() }

// parts are the strings and numbers that an argument is made of: itself, or its elements.
// nil for anything else, which no rule vouches for.
func parts(v powerbox.Value) []powerbox.Value {
	all, isList := v.Elements()
	if !isList {
		all = []powerbox.Value{v}
	}
	for _, one := range all {
		if k := one.Kind(); k != powerbox.KindString && k != powerbox.KindNumber {
			return nil
		}
	}
	return all
}

func (f *flow) judge() {
	untrusted, confidential := f.sources()
	for _, i := range f.intos() {
		s := f.call.Ask.Data.Sink(i.op)
		f.unread(i, s)
		if len(untrusted) > 0 && s.Untrusted != Pass {
			if argument, open := f.open(i, s.Deciding, f.vouched(i, s)); open {
				f.take(s.Untrusted, i, argument, "the caller has read untrusted data ("+strings.Join(untrusted, ", ")+")")
			}
		}
		if len(confidential) > 0 && s.Confidential != Pass {
			if argument, open := f.open(i, nil, func(name string, v powerbox.Value) bool { return f.named(i.op, name, v) }); open {
				f.take(s.Confidential, i, argument, "the caller has read confidential data ("+strings.Join(confidential, ", ")+")")
			}
		}
	}
}

// sources are those of the labels that a rule can be about.
func (f *flow) sources() (untrusted, confidential []string) {
	for _, l := range f.read.Labels {
		if l.Untrusted && !slices.Contains(untrusted, l.Source) {
			untrusted = append(untrusted, l.Source)
		}
		if l.Confidential && !slices.Contains(confidential, l.Source) {
			confidential = append(confidential, l.Source)
		}
	}
	return untrusted, confidential
}

// unread holds arguments to where their values must come from.
func (f *flow) unread(i into, s Sink) {
	if i.free && len(s.From) > 0 {
		f.take(s.Otherwise, i, "", "the content names no arguments, whose values must come from where the operator wants them")
		return
	}
	vouched := f.vouched(i, s)
	for _, from := range s.From {
		if value, ok := i.arguments.Get(from.Argument); ok && !vouched(from.Argument, value) {
			f.take(s.Otherwise, i, from.Argument, "its value was not read, in this task, where the operator wants it from, and no capability from before names it")
			return
		}
	}
}

// named reports whether an authority names the value of an argument and cannot have it from
// untrusted data.
func (f *flow) named(op powerbox.Operation, argument string, value powerbox.Value) bool {
	return slices.ContainsFunc(f.pinned, func(p pinning) bool { return p.names(op, argument, value, f.read.Labels) })
}

// vouched reports whether a value is named by the root capability or was earned by reading.
func (f *flow) vouched(i into, s Sink) func(string, powerbox.Value) bool {
	return func(name string, value powerbox.Value) bool {
		if f.named(i.op, name, value) {
			return true
		}
		all := parts(value)
		for _, part := range all {
			read := func(from From) bool {
				return from.Argument == name && f.earned[Value{Operation: from.Operation, Path: from.Path, Value: part}.key()]
			}
			if !slices.ContainsFunc(s.From, read) {
				return false
			}
		}
		return len(all) > 0
	}
}

// open returns the first of the arguments that nothing vouches for. Without arguments the
// call itself may be what the data asked for.
func (f *flow) open(i into, deciding []string, vouched func(string, powerbox.Value) bool) (argument string, open bool) {
	members, _ := i.arguments.Members()
	if deciding == nil {
		for _, m := range members {
			deciding = append(deciding, m.Name)
		}
	}
	for _, name := range deciding {
		value, ok := i.arguments.Get(name)
		if !ok || !vouched(name, value) {
			return name, true
		}
	}
	return "", i.free || len(deciding) == 0
}

// take notes what a rule makes of the call.
func (f *flow) take(e Effect, i into, argument, why string) {
	r := evidence.Reason{Code: CodeDataOrigin, Operation: i.op.String(), Argument: argument}
	r.Message = "operation " + r.Operation
	if argument != "" {
		r.Message += ", argument " + argument
	}
	r.Message += ": " + why
	if e == AskPerson {
		f.asked = append(f.asked, r)
		return
	}
	f.refused = append(f.refused, r)
}

// labelled is the member data of the details of a record: what the caller had read.
func (r *Read) labelled() powerbox.Value {
	labels := make([]powerbox.Value, 0, len(r.Labels))
	for _, l := range r.Labels {
		labels = append(labels, l.JSON())
	}
	members := []powerbox.Member{{Name: "read", Value: powerbox.List(labels...)}}
	if r.By.Task != "" {
		members = append(members, powerbox.Member{Name: "task", Value: powerbox.String(r.By.Task)})
	}
	return powerbox.Object(members...)
}

// JSON is a label as it stands in records.
func (l Label) JSON() powerbox.Value {
	trust := "trusted"
	if l.Untrusted {
		trust = "untrusted"
	}
	return powerbox.Object(
		powerbox.Member{Name: "confidential", Value: powerbox.Bool(l.Confidential)},
		powerbox.Member{Name: "source", Value: powerbox.String(l.Source)},
		powerbox.Member{Name: "trust", Value: powerbox.String(trust)},
	)
}

// withRead adds what the caller had read to the details of a record.
func withRead(details []byte, v *Verdict) []byte {
	if v.Data == nil || len(v.Data.Labels) == 0 {
		return details
	}
	var members []powerbox.Member
	if of, err := powerbox.ParseValue(details); err == nil {
		of, _ := of.Members()
		members = slices.Clone(of)
	}
	return powerbox.Object(append(members, powerbox.Member{Name: "data", Value: v.Data.labelled()})...).AppendJSON(nil)
}
