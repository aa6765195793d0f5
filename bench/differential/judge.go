package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// operations are the operations that skills, tools and methods are mapped to.
var operations = map[string]string{"export": "export", "search": "search", "resources/read": "read", "prompts/get": "prompt"}

// judge returns the differences between the call that a handler saw and its record.
func judge(s seen, c claims, r record, foreign func(id string) bool) []string {
	var wrong []string
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if r.Decision != "ALLOW" {
		say("the record says %s", r.Decision)
	}
	if strings.TrimSuffix(c.Audience, narrow) != s.Agent {
		say("the context is for %q", c.Audience)
	}
	if s.Task != r.Task || c.Task != r.Task {
		say("the handler saw task %q, the context says %q and the record %q", s.Task, c.Task, r.Task)
	}
	if s.Tenant != r.Details.Tenant || c.Tenant != r.Details.Tenant {
		say("the handler saw tenant %q, the context says %q and the record %q", s.Tenant, c.Tenant, r.Details.Tenant)
	}
	for _, id := range []string{s.Task, s.Stored, s.Context} {
		if foreign(id) {
			say("the handler saw %q, which is another caller's", id)
		}
	}
	if s.Method == "message" || isMCP(s.Agent) {
		return append(wrong, judgeContent(s, r, strings.HasSuffix(c.Audience, narrow))...)
	}
	if want := methodOf(r.Action, r.Intent.Operation); want != s.Method {
		say("the handler was asked for %s and the record says %s %s", s.Method, r.Action, r.Intent.Operation)
	}
	return wrong
}

// judgeContent compares what a message or a request calls for. Words beside a call
// are the caller's to add where its capability is not held to arguments; data that
// calls nothing that we know never is.
func judgeContent(s seen, r record, held bool) []string {
	var wrong []string
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	beside := s.Data + s.Other
	if held {
		beside += s.Text + s.File
	}
	if r.Details.Attempt != "invocation" {
		if len(s.Calls) > 0 {
			say("the handler saw a call of %s and the record says %s of %s", skillsOf(s), r.Details.Attempt, r.Intent.Operation)
		}
		return wrong
	}
	if len(s.Calls) == 0 && beside == 0 {
		return wrong // the skill was named in the request, and the handler is told no other
	}
	if len(s.Calls) != 1 {
		say("the handler saw %d calls (%s) and the record says one of %s", len(s.Calls), skillsOf(s), r.Intent.Operation)
		return wrong
	}
	if beside > 0 {
		say("the handler saw %d other parts beside the call (text %d, file %d, data %d, unknown %d)", beside, s.Text, s.File, s.Data, s.Other)
	}
	call := s.Calls[0]
	if want, ok := operations[call.Skill]; !ok || !strings.HasSuffix(r.Intent.Operation, "data:use/"+want) {
		say("the handler saw a call of %q and the record says %s", call.Skill, r.Intent.Operation)
	}
	decided := r.Details.Arguments
	if decided == nil {
		decided = json.RawMessage(`{}`)
	}
	if !same(call.Arguments, decided) {
		say("the handler saw arguments %s and the record says %s", call.Arguments, decided)
	}
	return append(wrong, judgeRead(s.Agent, call, decided)...)
}

// judgeRead compares the arguments that a handler takes by their names. A reader in
// Go takes a name in any letter case: then there must be one such name alone.
func judgeRead(agent string, call called, decided json.RawMessage) []string {
	var wrong []string
	var object map[string]json.RawMessage
	_ = json.Unmarshal(decided, &object)
	for name, got := range call.Read {
		want, ok := object[name]
		for other, v := range object {
			if strings.HasSuffix(agent, agentGo) && other != name && strings.EqualFold(other, name) {
				if ok {
					wrong = append(wrong, fmt.Sprintf("the record has %s in several letter cases", name))
				}
				want, ok = v, true
			}
		}
		if !ok && string(got) != "null" || ok && !same(got, want) {
			wrong = append(wrong, fmt.Sprintf("the handler read %s as %s and the record says %s", name, got, want))
		}
	}
	return wrong
}

func skillsOf(s seen) string {
	var names []string
	for _, c := range s.Calls {
		names = append(names, strconv.Quote(c.Skill))
	}
	return strings.Join(names, ", ")
}

// methodOf is the method of a record that is about no content.
func methodOf(action, operation string) string {
	all := action + " " + operation
	for _, m := range []struct{ word, method string }{{"list", "listTasks"}, {"cancel", "cancelTask"}, {"get", "getTask"}} {
		if strings.Contains(strings.ToLower(all), m.word) {
			return m.method
		}
	}
	return all
}

// same reports whether two JSON texts have the same value. A number is the double
// next to it, since that is what every SDK hands on.
func same(a, b json.RawMessage) bool {
	x, errX := value(a)
	y, errY := value(b)
	return errX == nil && errY == nil && equal(x, y)
}

func value(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

func equal(x, y any) bool {
	switch x := x.(type) {
	case json.Number:
		y, ok := y.(json.Number)
		return ok && double(x) == double(y)
	case []any:
		y, ok := y.([]any)
		return ok && slices.EqualFunc(x, y, equal)
	case map[string]any:
		y, ok := y.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for name, v := range x {
			w, there := y[name]
			if !there || !equal(v, w) {
				return false
			}
		}
		return true
	case string:
		y, ok := y.(string)
		return ok && (x == y || y == x[:cutAt(x, y)]+fmt.Sprintf("... (%d bytes, sha256 %x)", len(x), sha256.Sum256([]byte(x))))
	default:
		return x == y
	}
}

// cutAt is where a record cuts a long text: what stands before its length and digest.
func cutAt(whole, recorded string) int {
	head, _, _ := strings.Cut(recorded, "... (")
	return min(len(head), len(whole))
}

func double(n json.Number) float64 {
	f, _ := strconv.ParseFloat(string(n), 64)
	return f
}

// rounded reports whether a decided number is none that a double can hold, so that
// the handler saw another one, however the gateway wrote it.
func rounded(raw json.RawMessage) bool {
	v, err := value(raw)
	return err == nil && roundedIn(v)
}

func roundedIn(v any) bool {
	switch v := v.(type) {
	case json.Number:
		if len(v) > 40 {
			return true
		}
		exact, ok := new(big.Rat).SetString(string(v))
		short, okShort := new(big.Rat).SetString(strconv.FormatFloat(double(v), 'g', -1, 64))
		return !ok || !okShort || exact.Cmp(short) != 0
	case []any:
		return slices.ContainsFunc(v, roundedIn)
	case map[string]any:
		for _, w := range v {
			if roundedIn(w) {
				return true
			}
		}
	}
	return false
}
