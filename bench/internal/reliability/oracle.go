package reliability

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/evidence"
)

// told is the content of the answer to a call.
type told struct {
	outcome string // Powerbox-Outcome: forwarded, denied, unknown
	reason  string // Powerbox-Reason: the code of a denial
}

// Compared counts the answers, refusals and executions that were compared with the
// exported evidence.
type Compared struct {
	Answers  int // of the agent, each of which needs a decision that allows and an outcome
	Refusals int // with the id of a decision, whose code must be the one on record
	Executed int // at the agent, each of which needs a decision that allows
	Wrong    int // of all these, those that are not on record as they were told
}

// mayFollow is the reason of refusals that name a decision which was not on the disk in
// time. It may still be written, or not.
const mayFollow = "evidence_unavailable"

// answered keeps the decision that an answer names.
func (l *ledger) answered(h http.Header) {
	id := h.Get("Powerbox-Decision")
	if id == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.Get("Powerbox-Reason") != mayFollow {
		l.decisions[id] = true
	}
	if outcome := h.Get("Powerbox-Outcome"); outcome != "" {
		l.answers[id] = told{outcome, h.Get("Powerbox-Reason")}
	}
}

// reached keeps that a call was executed at the agent, under the decision that its context
// names.
func (l *ledger) reached(h http.Header) {
	var context struct {
		Decision string `json:"decision"`
	}
	parts := strings.Split(h.Get("Powerbox-Context"), ".")
	if len(parts) == 3 {
		if payload, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
			_ = json.Unmarshal(payload, &context) // without a decision it is a finding
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.executed = append(l.executed, context.Decision)
}

// onRecord is the evidence about one decision.
type onRecord struct {
	decision evidence.Decision
	codes    []string // of the decision, and those that the caller was told by its outcome
	outcome  bool
}

// read takes the decisions and outcomes of a bundle.
func read(bundle []byte) map[string]onRecord {
	all := map[string]onRecord{}
	for line := range bytes.Lines(bundle) {
		sealed, err := evidence.ParseSealed(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			continue // it is no record
		}
		r := sealed.Record()
		id := r.ID
		if r.Details.OutcomeOf != "" {
			id = r.Details.OutcomeOf
		}
		one := all[id]
		if r.Details.OutcomeOf == "" {
			one.decision = r.Decision
			for _, reason := range r.Details.Reasons {
				one.codes = append(one.codes, reason.Code)
			}
		}
		if r.OutcomeStatus != "" && r.OutcomeStatus != evidence.Pending {
			one.outcome = true
			var said struct {
				Told string `json:"told"`
			}
			if json.Unmarshal(r.Outcome, &said) == nil && said.Told != "" {
				one.codes = append(one.codes, said.Told)
			}
		}
		all[id] = one
	}
	return all
}

// compare holds every answer and every execution against a bundle, and returns the
// differences.
func (l *ledger) compare(bundle []byte) (c Compared, wrong []string) {
	records := read(bundle)
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, said := range l.answers {
		one, there := records[id]
		problem := ""
		switch {
		case said.reason == mayFollow:
			if there && one.decision == evidence.Allow && !slices.Contains(one.codes, mayFollow) {
				problem = "the call was refused, and the decision that was written late allows it without a correction"
			}
		case !there:
			problem = "the decision is not on record"
		case said.outcome == "forwarded" && one.decision != evidence.Allow:
			problem = fmt.Sprintf("the agent's answer was passed on, and the decision on record is %s", one.decision)
		case said.outcome == "forwarded" && !one.outcome:
			problem = "the agent's answer was passed on, and its outcome is not on record"
		case said.outcome == "denied" && !slices.Contains(one.codes, said.reason):
			problem = fmt.Sprintf("the answer said %s, and on record are %v", said.reason, one.codes)
		}
		switch said.outcome {
		case "forwarded":
			c.Answers++
		case "denied":
			c.Refusals++
		}
		if problem != "" {
			wrong = append(wrong, id+": "+problem)
		}
	}
	for _, id := range l.executed {
		c.Executed++
		if one, there := records[id]; !there || one.decision != evidence.Allow {
			wrong = append(wrong, fmt.Sprintf("%q: the agent executed it, and no decision on record allows it", id))
		}
	}
	c.Wrong = len(wrong)
	return c, wrong
}
