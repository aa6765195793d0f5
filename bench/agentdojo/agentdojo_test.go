package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/built"
	"github.com/powerbox-project/powerbox/internal/programtest"
)

// program is powerbox, in a folder of the whole run, once a test wants it.
var program struct {
	once sync.Once
	dir  string
	file string
	err  error
}

func binary(t *testing.T) string {
	t.Helper()
	program.once.Do(func() {
		program.file, program.err = built.Binary(t.Context(), os.Getenv(programtest.Variable), program.dir)
	})
	if program.err != nil {
		t.Fatal(program.err)
	}
	return program.file
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "powerbox-agentdojo-test")
	if err != nil {
		panic(err)
	}
	program.dir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// A suite that the procedure has never seen goes through the running binary: what
// the prompts pin holds, to the cent, and what they leave open is listed.
func TestGATE9_ASuiteOfOurOwnThroughTheBinary(t *testing.T) {
	file := binary(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out bytes.Buffer
	if err := start(ctx, []string{"-powerbox", file, "testdata/library.json"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/library.txt")
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// A refusal that is none of the grant, and a call that did not reach its tool,
// are faults of the replay and no figures.
func TestGATE9_OnlyRefusalsOfTheGrantCount(t *testing.T) {
	file := binary(t)
	s, err := readSuite("testdata/library.json")
	if err != nil {
		t.Fatal(err)
	}
	w, err := newTown(t.Context(), file, s, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.close() })
	g, err := w.grant(t.Context(), derive("Mail a@x.example.", s.granted([]string{"send_message"})))
	if err != nil {
		t.Fatal(err)
	}
	good := call{"send_message", []byte(`{"to": ["a@x.example"], "subject": "s", "body": "b"}`)}
	if got, err := g.try(t.Context(), good); err != nil || !got.allowed {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := g.try(t.Context(), call{"send_message", []byte(`{"to": ["b@x.example"], "subject": "s", "body": "b"}`)}); err != nil || got.reason != "argument_constraint" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := g.try(t.Context(), call{"delete_file", []byte(`{"file_id": "1"}`)}); err != nil || got.reason != "operation_not_granted" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := g.try(t.Context(), call{"send_message", []byte(`{"to": ["a@x.example"]}`)}); err != nil || got.reason != "argument_missing" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := g.try(t.Context(), call{"send_message", []byte(`{"to": 1, "to": 2}`)}); err == nil {
		t.Error("arguments with a name twice are a call")
	}
	g.root = "" // nothing is presented, though there is a grant
	if got, err := g.try(t.Context(), good); err != nil || got.reason != "capability_required" {
		t.Errorf("%+v, %v", got, err)
	}
	g.root, g.chains = "x", map[string][]string{}
	if _, err := g.try(t.Context(), good); err == nil {
		t.Error("what is no token is presented")
	}
	// A link that is signed by someone else: refused, but not for what it holds.
	other, err := newTown(t.Context(), file, s, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.close() })
	foreign, err := other.grant(t.Context(), derive("Mail a@x.example.", s.granted([]string{"send_message"})))
	if err != nil {
		t.Fatal(err)
	}
	foreign.town.agent = w.agent
	if got, err := foreign.try(t.Context(), good); err == nil || got.allowed {
		t.Errorf("a foreign token: %+v, %v; want a fault", got, err)
	}
}

func TestTheDataIsNamed(t *testing.T) {
	for name, args := range map[string][]string{"an unknown flag": {"-x"}, "an unknown run": {"-runs", "grant,c", "testdata/library.json"}} {
		if err := start(t.Context(), args, io.Discard, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	empty := t.TempDir()
	for name, args := range map[string][]string{"a folder that is not there": {"-data", filepath.Join(empty, "none")}, "an empty folder": {"-data", empty}, "no such file": {filepath.Join(empty, "x.json")}} {
		if err := start(t.Context(), args, io.Discard, io.Discard); !errors.Is(err, errNoData) || !strings.Contains(err.Error(), "not part of this repository") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSuitesAreWhole(t *testing.T) {
	raw, err := os.ReadFile("testdata/library.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, says string }{
		{"{", "[", "no suite"},
		{`"suite": "library"`, `"suite": "a/b"`, "lower-case"},
		{`"user_tasks"`, `"tasks"`, "want some of each"},
		{`"name": "search_books"`, `"name": "get_messages"`, "there twice"},
		{`"parameters": {"type": "object", "properties": {}}`, `"parameters": []`, "no JSON Schema"},
		{`"id": "user_1"`, `"id": "user_0"`, "no id of its own"},
		{`"function": "search_books"`, `"function": "burn_books"`, "no tool of the suite"},
		{`"args": {}`, `"args": []`, "no object"},
		{`"prompt": "Which books do you have about bees?"`, `"prompt": " "`, "has no prompt"},
		{`"derived_calls"`, `"other_calls"`, "nothing of it can be replayed"},
	} {
		if _, err := parseSuite([]byte(strings.Replace(string(raw), c.from, c.to, 1))); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s for %s: %v; want %q", c.to, c.from, err, c.says)
		}
	}
	large := filepath.Join(t.TempDir(), "large.json")
	if err := os.WriteFile(large, bytes.Repeat([]byte(" "), maxSuite+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readSuite(large); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a large file: %v", err)
	}
}
