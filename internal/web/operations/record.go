package operations

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/action"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

const (
	// tracedAround is how long before and after a record its trace is looked for, tracedPages
	// in how many pages of records at the most: each is a scan of the log.
	tracedAround = 24 * time.Hour
	tracedPages  = 3
	// shownHops bounds the calls of a trace that a page shows.
	shownHops = 60
	// deepest is the deepest place that is indented on its own.
	deepest = 6
)

// recordPage is one record in plain words.
type recordPage struct {
	Row      row
	Sentence string
	Verdict  string
	Reasons  []reasonShown
	Facts    []fact
	Purpose  string // the requester's words
	Hops     []hopShown
	Hidden   int    // further hops
	NoTrace  string // why the trace is not whole
	Chain    []api.CapabilityStatus
	NoChain  string
	Raw      string
	Of       string // id of the decision whose outcome this tells
	Next     []Link // what an operator may do about a call
	Sealed   sealedFacts
}

// sealedFacts are those that the verification in the browser is about.
type sealedFacts struct {
	Hash, Prev, Key, Algorithm, Chain string
	Sequence                          int64
}

// reasonShown is one reason of a decision, with where people read about it.
type reasonShown struct {
	evidence.Reason

	Doc string
}

// fact is one member of the record in words, with a link to more like it.
type fact struct{ Name, Text, Link string }

// hopShown is one call of the trace.
type hopShown struct {
	audit.TraceHop

	Depth string // class of its place in the tree
	Said  string // the decision in a word
	Class string
	This  bool
}

func (p *Pages) record(v *Visit) (Answer, error) {
	sealed, err := v.API.Sealed(v.Context(), v.PathValue("id"))
	if err != nil {
		return Answer{}, err
	}
	r := sealed.Record()
	page := recordPage{Row: rowOf(v.Language, v.Rights, r), Sentence: sentence(v.Language, r), Verdict: verdict(v.Language, r), Facts: factsOf(v.Language, r), Purpose: r.Intent.Purpose, Of: r.Details.OutcomeOf}
	page.Sealed = sealedFacts{sealed.Hash().String(), sealed.Prev().String(), r.Details.SigningKeyID, sealed.Algorithm(), r.Details.ChainID.String(), r.Details.Sequence}
	for _, reason := range r.Details.Reasons {
		if strings.Contains(reason.Message, reason.Operation) {
			reason.Operation = "" // the message names it
		}
		reason.Message = v.Language.Said(reason.Message)
		page.Reasons = append(page.Reasons, reasonShown{reason, a2a.DocOf(reason.Code)})
	}
	var raw bytes.Buffer
	if err := json.Indent(&raw, sealed.Bytes(), "", "  "); err != nil {
		return Answer{}, fmt.Errorf("operations: record: %w", err)
	}
	page.Raw, page.Next = raw.String(), nextOf(v.Language, v.Rights, r)
	if err := page.trace(v, r); err != nil {
		return Answer{}, err
	}
	if err := page.chain(v, r); err != nil {
		return Answer{}, err
	}
	return Answer{Page: "record", Title: v.T("Record"), Body: page, Script: "verify.js"}, nil
}

// nextOf leads from a call to the pages where an operator acts on it.
func nextOf(l *lang.Language, may people.Rights, r evidence.Record) []Link {
	if !audit.IsCall(r) {
		return nil
	}
	var out []Link
	if !audit.IsFreeText(r) && may.MayAt(people.See, r.AgentID) {
		try := url.Values{"agent": {r.AgentID}, "operation": {strings.TrimPrefix(r.Intent.Operation, r.AgentID+"/")}}
		if audit.IsNamed(r.Details.Requester) {
			try.Set("caller", r.Details.Requester)
		}
		out = append(out, Link{Path + "/try?" + try.Encode(), l.T("Try this call")})
	}
	if may.MayAt(people.Steer, r.AgentID) && api.Givable(r) == "" {
		out = append([]Link{{givePath + "/" + url.PathEscape(r.ID), l.T("Grant exactly this")}}, out...)
	}
	if !may.MayAt(people.Stop, r.AgentID) {
		return out
	}
	if r.Details.Capability != "" {
		out = append(out, Link{Path + "/revoke?" + url.Values{"target": {r.Details.Capability}}.Encode(), l.T("Revoke its capability")})
	}
	return append(out, Link{Path + "/agents/" + url.PathEscape(r.AgentID) + "/freeze", l.T("Freeze %s", r.AgentID)})
}

// unknownCaller is the name on record of a caller that proves none.
const unknownCaller = "unknown"

// sentence says in one sentence who asked whom for what.
func sentence(l *lang.Language, r evidence.Record) string {
	d := r.Details
	who := d.Requester
	switch who {
	case "":
		who = "Powerbox"
	case unknownCaller:
		who = l.T("A caller that proved no name")
	}
	if d.OutcomeOf != "" {
		return l.T("Agent %s ended a call of %s.", r.AgentID, who)
	}
	if !audit.IsCall(r) {
		if d.Principal != "" {
			who = l.T("%s for user %s", who, d.Principal)
		}
		return l.T("%s: %s at %s.", who, r.ActionType, r.AgentID)
	}
	if d.Principal != "" {
		who = l.T("%s, for user %s,", who, d.Principal)
	}
	if audit.IsFreeText(r) {
		return l.T("%s sent free text to agent %s, and named no skill.", who, r.AgentID)
	}
	return l.T("%s called %s at agent %s.", who, audit.SubjectOf(r), r.AgentID)
}

// verdicts are those of [audit.Verdict] that the catalogue has.
var verdicts = []string{
	lang.Mark("Allowed."), lang.Mark("Denied."), lang.Mark("Held until a person approves it; powerbox trace shows what became of it."),
	lang.Mark("A person has to approve it: a client that opens URLs was sent to the page, any other was denied."),
	lang.Mark("Let through, since the agent is only observed; otherwise denied."), lang.Mark("Let through, since the agent is only observed."),
}

// verdict words the decision.
func verdict(l *lang.Language, r evidence.Record) string {
	if r.Details.OutcomeOf != "" {
		return l.T("This record tells the outcome of a decision: %s.", strings.ToLower(string(r.OutcomeStatus)))
	}
	text := audit.Verdict(r)
	if text = strings.ToUpper(text[:1]) + text[1:] + "."; slices.Contains(verdicts, text) {
		return l.T(text)
	}
	return text
}

// factsOf are the members of a record in words.
func factsOf(l *lang.Language, r evidence.Record) []fact {
	d := r.Details
	var out []fact
	add := func(name, text, param string) {
		if text == "" {
			return
		}
		f := fact{Name: name, Text: text}
		if param != "" {
			f.Link = search{url.Values{}}.With(param, text)
		}
		out = append(out, f)
	}
	add(l.T("Asked by"), d.Requester, "requester")
	add(l.T("For user"), d.Principal, "principal")
	add(l.T("At agent"), r.AgentID, "agent")
	add(l.T("Operation"), r.Intent.Operation, "operation")
	add(l.T("Action"), r.ActionType, "")
	add(l.T("Mode"), d.Mode, "")
	add(l.T("Held"), strings.Join(d.Granted, ", "), "")
	if g := d.Gate; g != nil {
		add(l.T("Required"), strings.Join(g.Required, ", "), "")
		add(l.T("Effective"), strings.Join(g.Allowed, ", "), "")
		add(l.T("Missing"), strings.Join(g.Missing, ", "), "")
	}
	add(l.T("Outcome"), strings.ToLower(string(r.OutcomeStatus)), "")
	add(l.T("Task"), r.TaskID, "task")
	add(l.T("Tenant"), d.Tenant, "")
	add(l.T("Trace"), d.TraceID, "trace")
	add(l.T("Capability"), strings.TrimPrefix(d.Capability, "unverified:"), "capability")
	add(l.T("Policies"), d.PolicyDigest, "")
	add(l.T("Recorder"), d.Recorder, "")
	return out
}

// logWindow is the log around a time, looked at a bounded number of times.
type logWindow struct {
	API

	until time.Time
	left  *int
	short *bool // whether there was more to look at
}

// Each implements [audit.Source].
func (n logWindow) Each(ctx context.Context, q audit.Query) iter.Seq2[evidence.Record, error] {
	return func(yield func(evidence.Record, error) bool) {
		q.Until = n.until
		for values, next := q.Values(), q.Before; ; {
			if *n.left == 0 {
				*n.short = true
				return
			}
			*n.left--
			if next != "" {
				values.Set("before", next)
			}
			page, more, err := n.Records(ctx, values)
			if err != nil {
				yield(evidence.Record{}, err)
				return
			}
			for _, s := range page {
				if !yield(s.Record(), nil) {
					return
				}
			}
			if next = more; next == "" {
				return
			}
		}
	}
}

// trace adds the calls of the same trace or task as a tree.
func (page *recordPage) trace(v *Visit, r evidence.Record) error {
	left, short := tracedPages, false
	t := audit.Tracer{Source: logWindow{v.API, r.Time.Add(tracedAround), &left, &short}, Since: r.Time.Add(-tracedAround)}
	traced, err := t.Trace(v.Context(), r.ID)
	if errors.Is(err, audit.ErrNotThere) {
		page.NoTrace = v.T("A record of this trace is in an archived period. Add --from with its bundle to the command:")
		return nil
	}
	if err != nil {
		return fmt.Errorf("operations: the trace: %w", err)
	}
	if short || traced.Truncated {
		page.NoTrace = v.T("The log has too many records since then to look through for a page; calls of this trace may be missing here. The command shows them:")
	}
	this := r.ID
	if r.Details.OutcomeOf != "" {
		this = r.Details.OutcomeOf
	}
	all := flat(v.Language, traced.Hops, 0, this)
	if len(all) > shownHops { // those around this one
		at := max(0, slices.IndexFunc(all, func(h hopShown) bool { return h.This })-shownHops/2)
		page.Hidden = len(all) - shownHops
		all = all[min(at, len(all)-shownHops):][:shownHops]
	}
	page.Hops = all
	return nil
}

// flat lists a tree, a parent before its children.
func flat(l *lang.Language, hops []audit.TraceHop, depth int, this string) []hopShown {
	var out []hopShown
	for _, h := range hops {
		one := hopShown{TraceHop: h, Depth: "d" + strconv.Itoa(min(depth, deepest)), This: h.Record == this}
		one.Said, one.Class = decided(l, h.Decision, h.Outcome == "" && audit.Waits(h.Decision, h.Reasons))
		out = append(out, one)
		out = append(out, flat(l, h.Hops, depth+1, this)...)
	}
	return out
}

// maxChain bounds the capabilities of a chain that are looked up.
const maxChain = 16

// chain adds the capability that the decision was made on, and those before it.
func (page *recordPage) chain(v *Visit, r evidence.Record) error {
	id, unverified := strings.CutPrefix(r.Details.Capability, "unverified:")
	if id == "" || slices.Contains([]action.Class{action.Revoke, action.Freeze}, action.ClassOf(r.ActionType)) {
		return nil
	}
	if unverified {
		page.NoChain = v.T("The caller presented this capability, and it did not verify.")
	}
	var last api.CapabilityStatus
	err := v.API.Get(v.Context(), "/v1/capabilities/"+url.PathEscape(id), &last)
	if no := (*Refused)(nil); errors.As(err, &no) && no.Status == http.StatusNotFound {
		page.NoChain = v.T("The server does not have it. A holder may have derived it offline: powerbox explain shows the holder's file.")
		return nil
	}
	if err != nil {
		return err
	}
	for _, before := range last.Ancestors[:min(len(last.Ancestors), maxChain)] {
		var one api.CapabilityStatus
		if err := v.API.Get(v.Context(), "/v1/capabilities/"+url.PathEscape(before), &one); err != nil {
			return err
		}
		page.Chain = append(page.Chain, one)
	}
	page.Chain = append(page.Chain, last)
	return nil
}

// sealed serves the record in its one form, with its hash and signature.
func (p *Pages) sealed(v *Visit) (Answer, error) {
	s, err := v.API.Sealed(v.Context(), v.PathValue("id"))
	if err != nil {
		return Answer{}, err
	}
	return Answer{Write: func(w http.ResponseWriter) error {
		w.Header().Set("Content-Type", "application/json")
		_, err := io.Copy(w, bytes.NewReader(s.Bytes()))
		return err
	}}, nil
}

// proof passes the inclusion proof on.
func (p *Pages) proof(v *Visit) (Answer, error) {
	id := v.PathValue("id")
	return v.file("/v1/evidence/proof/"+url.PathEscape(id), "proof.txt"), nil
}
