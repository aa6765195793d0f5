// Package conformance has the cases that every adapter for a framework passes, and the
// protocol in which a driver is asked to run them.
//
// A driver is a program on a framework. It reads one [Request] per line and answers each
// with one [Reply] per line, in order. It gives the framework the tools of the cases, a
// model that makes the calls of the request and then ends, and the adapter under test.
package conformance

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed cases.json
var cases []byte

// Case is one behaviour, in steps.
type Case struct {
	Name  string `json:"name"`
	Steps []Step `json:"steps"`
}

// Step is one turn of a model, or one action of a person or an operator.
type Step struct {
	// Agent makes the calls: lead, which "" is, spare, or one that the guard may not speak
	// for. To is the agent that the task is handed to first, and that makes the calls then.
	Agent string `json:"agent"`
	To    string `json:"to"`
	Calls []Call `json:"calls"`
	// Gate is the server that the adapter asks: the real one, which "" is, or one that is
	// down, silent, redirect, error, text or, with another token, stranger.
	Gate      string `json:"gate"`
	TimeoutMS int    `json:"timeout_ms"`
	WaitMS    int    `json:"wait_ms"`
	Stream    bool   `json:"stream"`
	Want      Want   `json:"want"`
	// Person answers the question of the step before, Meanwhile that of this one, while
	// its call waits: approve or deny. Operator freeze stops the agent spare.
	Person    string `json:"person"`
	Meanwhile string `json:"meanwhile"`
	Operator  string `json:"operator"`
}

// Call is a tool call of the model, with its arguments as the model writes them.
type Call struct {
	Tool      string `json:"tool"`
	Arguments string `json:"arguments"`
}

// Want is the expectation of a step.
type Want struct {
	Ran []string `json:"ran"` // tools, in any order
	// RanWith are the arguments of the tool that ran, compared as JSON with exact numbers.
	RanWith string `json:"ran_with"`
	// Codes are those of all denials, in any order. Denied leaves them open: the framework
	// may refuse the call before the adapter sees it.
	Codes    []string `json:"codes"`
	Denied   bool     `json:"denied"`
	Denials  int      `json:"denials"`  // how many, in place of their codes
	Told     []string `json:"told"`     // occurs in the results that the model gets
	Outcomes []string `json:"outcomes"` // on record, of the calls that were allowed
	Origin   string   `json:"origin"`   // on record, of the calls of tools
	Asked    int      `json:"asked"`    // how often the program was told of a question
	Or       []Want   `json:"or"`       // one of these, in place of all of the above
}

// Request asks a driver for one run.
type Request struct {
	ID        int    `json:"id"`
	URL       string `json:"url"`
	Token     string `json:"token"`
	TimeoutMS int    `json:"timeout_ms"`
	WaitMS    int    `json:"wait_ms"`
	Agent     string `json:"agent"`
	To        string `json:"to,omitempty"`
	Calls     []Call `json:"calls"`
	Stream    bool   `json:"stream,omitempty"`
}

// Reply says what happened in a run.
type Reply struct {
	ID int `json:"id"`
	// Ran are the tools whose function was entered, with the arguments that it got.
	Ran []Ran `json:"ran"`
	// Told are the results that the model was given, as text, and the error of the run.
	Told []string `json:"told"`
	// Decisions are those that the adapter told the program.
	Decisions []Decision `json:"decisions"`
	Asked     int        `json:"asked"`
}

// Ran is a tool that ran.
type Ran struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// Decision is what an adapter tells the program of one call.
type Decision struct {
	Tool    string `json:"tool"`
	Allowed bool   `json:"allowed"`
	ID      string `json:"id"` // of the record
	Code    string `json:"code"`
}

// Cases returns the cases.
func Cases() ([]Case, error) {
	var out []Case
	if err := json.Unmarshal(cases, &out); err != nil {
		return nil, fmt.Errorf("cases.json: %w", err)
	}
	return out, nil
}
