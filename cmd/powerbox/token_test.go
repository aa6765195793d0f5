package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/token"
)

// vector is one file of testdata/vectors/token.
type vector struct {
	Name      string          `json:"name"`
	Anchors   json.RawMessage `json:"anchors"`
	Chain     json.RawMessage `json:"chain"`
	Proof     string          `json:"proof"`
	Operation string          `json:"operation"`
	Arguments string          `json:"arguments"`
	At        int64           `json:"at"`
	Audience  string          `json:"audience"`
	Issuer    string          `json:"issuer"`
	Point     token.Point     `json:"point"`
	Draft01   bool            `json:"draft_01"`
	Strict    bool            `json:"strict"`
	Revoked   []string        `json:"revoked"`
	Decision  string          `json:"decision"`
	Codes     []string        `json:"codes"`
}

func (v vector) arguments(t *testing.T) []string {
	folder := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	args := []string{
		"token", "verify", "--anchors", file("anchors", v.Anchors), "--chain", file("chain", v.Chain),
		"--proof", file("proof", []byte(v.Proof)), "--operation", v.Operation, "--arguments", v.Arguments,
		"--at", strconv.FormatInt(v.At, 10), "--output", "json",
	}
	for flag, value := range map[string]string{"audience": v.Audience, "issuer": v.Issuer, "nonce": v.Point.Nonce} {
		if value != "" {
			args = append(args, "--"+flag, value)
		}
	}
	for flag, set := range map[string]bool{
		"accept-draft-01": v.Draft01, "strict": v.Strict,
		"require-audience": v.Point.RequireAudience, "require-chain-audience": v.Point.ChainAudience,
	} {
		args = append(args, fmt.Sprintf("--%s=%t", flag, set))
	}
	for _, identity := range v.Point.Identity {
		args = append(args, "--identity", identity)
	}
	if len(v.Revoked) > 0 {
		args = append(args, "--revoked", strings.Join(v.Revoked, ","))
	}
	return args
}

// TestTokenVerifyAnswersEveryVector runs the command over all vectors.
func TestTokenVerifyAnswersEveryVector(t *testing.T) {
	names, err := filepath.Glob("../../testdata/vectors/token/*.json")
	if err != nil || len(names) < 300 {
		t.Fatal(len(names), "vectors", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var v vector
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields() // a field that no flag says would change the question
		if err := d.Decode(&v); err != nil {
			t.Fatal(name, err)
		}
		t.Run(v.Name, func(t *testing.T) { v.mustAnswer(t) })
	}
}

func (v vector) mustAnswer(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := Run(t.Context(), v.arguments(t), func(string) string { return "" }, strings.NewReader(""), &stdout, &stderr)
	var answer struct {
		Decision  string
		Reasons   []struct{ Code, Message string }
		Authority json.RawMessage
	}
	if err := json.Unmarshal(stdout.Bytes(), &answer); err != nil {
		t.Fatalf("%v: %s", err, &stdout)
	}
	codes := []string{}
	for _, r := range answer.Reasons {
		codes = append(codes, r.Code)
	}
	if d := cmp.Diff(v.Codes, codes); d != "" || answer.Decision != v.Decision {
		t.Errorf("%s instead of %s: %s", answer.Decision, v.Decision, d)
	}
	if want := map[string]int{"allow": cli.ExitFine, "deny": cli.ExitDenied}[v.Decision]; code != want {
		t.Errorf("exit code %d, want %d", code, want)
	}
	if stderr.Len() > 0 {
		t.Errorf("standard error: %s", &stderr)
	}
}
