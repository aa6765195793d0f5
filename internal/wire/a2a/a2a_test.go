package a2a

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
)

var testLimits = powerbox.Limits{Bytes: 64 << 10, Depth: 32}

// cases reads a table of testdata. Each test has its own columns.
func cases[T any](t testing.TB, file string) []T {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var table []T
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return table
}

type decodeCase struct {
	Name       string
	Version    string
	Extensions []string
	Body       json.RawMessage // as it stands in the file, or
	Text       *string         // what would be no JSON
	Want       string
	Error      string
}

func (c decodeCase) bytes() []byte {
	if c.Text != nil {
		return []byte(*c.Text)
	}
	return c.Body
}

func TestDecode(t *testing.T) {
	for _, c := range cases[decodeCase](t, "decode.json") {
		t.Run(c.Name, func(t *testing.T) {
			call, err := Decode(c.bytes(), Header{c.Version, c.Extensions}, testLimits)
			if err != nil {
				got := fmt.Sprintf("%d %s: %s", err.Code, err.Reason, err)
				if diff := cmp.Diff(c.Error, got); diff != "" {
					t.Errorf("error (-want +got):\n%s", diff)
				}
				return
			}
			if diff := cmp.Diff(c.Want, describe(call)); diff != "" || c.Error != "" {
				t.Errorf("call, want error %q (-want +got):\n%s", c.Error, diff)
			}
		})
	}
}

// describe writes a call on one line, without its zero members.
func describe(c Call) string {
	b := []string{c.Method.String()}
	if c.Method == Unknown {
		b[0] += "(" + c.Wire + ")"
	}
	b = append(b, c.Version, "id="+string(c.ID))
	add := func(name string, value any) {
		if s := fmt.Sprint(value); s != "" && s != "[]" && s != "null" {
			b = append(b, name+s)
		}
	}
	flag := func(name string, set bool) {
		if set {
			b = append(b, name)
		}
	}
	flag("stream", c.Streaming)
	add("extensions=", c.Extensions)
	add("tenant=", c.Tenant)
	add("task=", c.Task)
	add("context=", c.Context)
	add("references=", c.ReferenceTasks)
	flag("text", c.Message.HasText)
	flag("loose", c.Message.Loose)
	flag("unread", c.Message.Unread)
	if p := c.Push; p != nil {
		flag("inline", p.Inline)
		add("push=", p.URL)
	}
	if named, ok, err := c.Naming(""); err != nil {
		b = append(b, err.Reason)
	} else if ok {
		b = append(b, "skill="+named.Skill+named.Arguments.String())
	}
	if m := c.Members; m != nil {
		add("capability=", m.CapabilityID)
		add("capabilities=", m.Capabilities)
		for _, id := range slices.Sorted(maps.Keys(m.Attenuations)) {
			b = append(b, id+":"+describeAttenuation(m.Attenuations[id]))
		}
		add("chain=", m.Chain)
		add("proof=", m.Proof)
		add("purpose=", m.Purpose)
		flag("ambient", m.Ambient)
		add("delegations=", m.Delegations)
	}
	b = append(b, describeExtension(c)...)
	add("dropped=", c.Dropped)
	return strings.Join(b, " ")
}

func describeAttenuation(a Attenuation) string {
	expires := "-"
	if !a.Expires.IsZero() {
		expires = a.Expires.Format(time.RFC3339)
	}
	return fmt.Sprintf("{%v %v %s}", a.ResourceHandles, a.Operations, expires)
}

func describeExtension(c Call) []string {
	var b []string
	if p := c.Request; p != nil {
		b = append(b, fmt.Sprintf("grants=%v", p.Grants))
		if p.Operations != nil {
			b = append(b, fmt.Sprintf("operations=%v", p.Operations))
		}
		b = append(b, "purpose="+p.Purpose)
		if p.ResourceQuery.Kind() != powerbox.KindNull {
			b = append(b, "query="+p.ResourceQuery.String())
		}
		if p.Arguments.Kind() != powerbox.KindNull {
			b = append(b, "arguments="+p.Arguments.String())
		}
		if !p.Expires.IsZero() {
			b = append(b, "expires="+p.Expires.Format(time.RFC3339))
		}
		if p.Task != "" {
			b = append(b, "task for="+p.Task)
		}
		if p.Push {
			b = append(b, "push allowed")
		}
	}
	if p := c.Attenuate; p != nil {
		b = append(b, "attenuate="+p.CapabilityID+":"+describeAttenuation(p.Constraints))
	}
	if p := c.Revoke; p != nil {
		b = append(b, fmt.Sprintf("revoke=%v", *p))
	}
	if p := c.Invoke; p != nil {
		b = append(b, "raw="+string(p.Arguments.AppendSource(nil)))
	}
	return b
}

// What continues to an agent is what the call was read from, and the same however the
// caller wrote it.
func TestATK56_WrittenAgain(t *testing.T) {
	type writtenCase struct{ Name, Method, Path, Query, Text, Want, Error string }
	for _, c := range cases[writtenCase](t, "written.json") {
		t.Run(c.Name, func(t *testing.T) {
			var call Call
			var wrong *Error
			if c.Path == "" {
				call, wrong = Decode([]byte(c.Text), Header{Version: Version1}, testLimits)
			} else {
				call, wrong = DecodeHTTP(HTTPRequest{Method: c.Method, Path: c.Path, Query: c.Query, Body: []byte(c.Text)}, Header{Version: Version1}, testLimits)
			}
			w, body := call.Written, string(call.Body())
			got := strings.TrimSpace(strings.Join([]string{w.Method, w.Path, w.Query, body}, " "))
			if wrong != nil {
				got = ""
				if diff := cmp.Diff(c.Error, wrong.Reason+": "+wrong.Message); diff != "" {
					t.Errorf("error (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff(c.Want, got); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			if wrong != nil || c.Path != "" {
				return
			}
			again, wrong := Decode([]byte(body), Header{Version: Version1}, testLimits)
			if wrong != nil || string(again.Body()) != body || len(again.Dropped) != 0 {
				t.Errorf("written twice: %s, dropped %v, %v", again.Body(), again.Dropped, wrong)
			}
		})
	}
}
