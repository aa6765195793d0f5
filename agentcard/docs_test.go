package agentcard_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	v1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/powerbox-project/powerbox/agentcard"
)

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// blocks returns the fenced examples of a page with a label.
func blocks(t *testing.T, page, label string) []string {
	t.Helper()
	var out []string
	for _, m := range regexp.MustCompile("(?s)```"+label+"\n(.*?)```").FindAllStringSubmatch(read(t, page), -1) {
		out = append(out, m[1])
	}
	if len(out) == 0 {
		t.Fatalf("%s has no example %q", page, label)
	}
	return out
}

// withParams is a good card with params of the contract extension.
func withParams(params string) []byte {
	return []byte(`{"name":"A","description":"D","version":"1","supportedInterfaces":[{"url":"https://reports.example.com/a2a","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
		"capabilities":{"streaming":true,"extensions":[{"uri":"` + agentcard.ContractURI + `","params":` + params + `}]},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
		"skills":[{"id":"s","name":"S","description":"S","tags":["t"]}]}`)
}

// TestCARD20_Schema: the schema, the text and the code say the same of params.
func TestCARD20_Schema(t *testing.T) {
	const file = "../docs/reference/extension/capability-contract.schema.json"
	compiled, err := jsonschema.NewCompiler().Compile(file)
	if err != nil {
		t.Fatal(err)
	}
	params := map[string]bool{
		`{}`: true, `{"pause_resume":true,"vendor":{}}`: true, `{"pause_resume":"yes"}`: false, `{"min_protocol_version":"1"}`: false, `{"max_protocol_version":"1.2.3"}`: true,
		`{"max_protocol_version":"01.2"}`: false, `{"interfaces":[{"url":"https://reports.example.com/a2a","protocol_versions":["1.0","1.1"]}]}`: true,
		`{"interfaces":[{"url":"https://reports.example.com/a2a","protocol_versions":[]}]}`: false, `{"interfaces":[{"protocol_versions":["1.0"]}]}`: false,
		`{"vendor":{"com.example/x":{"supported":true,"description":"X"}}}`: true, `{"vendor":{"x":{"supported":true,"description":"X"}}}`: false,
		`{"vendor":{"https://example.com/x":{"supported":true,"description":"X","schema":{}}}}`: true, `{"vendor":{"com.example/x":{"description":"X"}}}`: false,
		`{"vendor":{"com.example/x":{"supported":true}}}`: false, `{"vendor":{".com/x":{"supported":true,"description":"X"}}}`: false,
	}
	for _, example := range blocks(t, "../docs/reference/extension/capability-contract.md", "json params") {
		params[example] = true
	}
	for text, good := range params {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled.Validate(v); (err == nil) != good {
			t.Errorf("CARD-20 %s: schema says %v; want good: %t", text, err, good)
		}
		if _, problems := agentcard.Lint(withParams(text), true); (agentcard.Errors(problems) == 0) != good {
			t.Errorf("CARD-20 %s: lint says %v; want good: %t", text, problems, good)
		}
	}
	for _, f := range agentcard.Features() {
		if f.Tier == agentcard.Implicit || f.Name == "streaming" || f.Name == "extended_agent_card" || f.Name == "state_transition_history" {
			continue
		}
		if !strings.Contains(read(t, file), `"`+f.Name+`"`) || !strings.Contains(read(t, "../docs/reference/extension/capability-contract.md"), "`"+f.Name+"`") {
			t.Errorf("CARD-20 %s is not in schema and text", f.Name)
		}
	}
	if !strings.Contains(read(t, "../docs/reference/extension/capability-contract.md"), agentcard.ContractURI+"\n") {
		t.Error("CARD-20 the text has another URI")
	}
}

// TestCARD18_Proto: the fragment adds what lint reads, on numbers that are free in
// 1.0, each with a comment.
func TestCARD18_Proto(t *testing.T) {
	fragment := read(t, "../docs/reference/extension/capability-contract.proto")
	of := map[string]protoreflect.MessageDescriptor{
		"AgentCard": (&v1.AgentCard{}).ProtoReflect().Descriptor(), "AgentInterface": (&v1.AgentInterface{}).ProtoReflect().Descriptor(),
		"AgentCapabilities": (&v1.AgentCapabilities{}).ProtoReflect().Descriptor(),
	}
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?s)message (\w+) \{(.*?)\n\}`).FindAllStringSubmatch(fragment, -1) {
		d := of[m[1]]
		if d == nil {
			t.Errorf("CARD-18 message %s", m[1])
			continue
		}
		for _, f := range regexp.MustCompile(`(?m)(?:^  // .*\n)+^  (?:optional|repeated) \w+ (\w+) = (\d+)`).FindAllStringSubmatch(m[2], -1) {
			found[f[1]] = true
			for i := range d.Fields().Len() {
				if have := d.Fields().Get(i); string(have.Name()) == f[1] || have.Number() == number(f[2]) {
					t.Errorf("CARD-18 %s.%s = %s is taken by %s = %d", m[1], f[1], f[2], have.Name(), have.Number())
				}
			}
		}
		if len(regexp.MustCompile(`(?m)^  (?:optional|repeated) `).FindAllString(m[2], -1)) != len(regexp.MustCompile(`(?m)(?:^  // .*\n)+^  (?:optional|repeated) `).FindAllString(m[2], -1)) {
			t.Errorf("CARD-18 a field of %s has no comment", m[1])
		}
	}
	for _, name := range []string{"min_protocol_version", "max_protocol_version", "protocol_versions", "pause_resume", "streaming_message", "context_reuse", "multi_tenant", "message_history_injection", "artifact_streaming"} {
		if !found[name] {
			t.Errorf("CARD-18 %s is not in the fragment", name)
		}
	}
}

func number(s string) protoreflect.FieldNumber {
	var n protoreflect.FieldNumber
	for _, c := range s {
		n = n*10 + protoreflect.FieldNumber(c-'0')
	}
	return n
}

// TestCARD18_Specification: the section names every feature in its tier, and the
// list of capabilities has the same.
func TestCARD18_Specification(t *testing.T) {
	text := read(t, "../docs/reference/specification.md")
	plain := strings.ReplaceAll(text, "`", "")
	contract, err := agentcard.ParseContract(agentcard.CurrentContract())
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]agentcard.Capability{}
	for _, c := range contract.Capabilities {
		listed[c.Name] = c
	}
	for _, f := range agentcard.Features() {
		if c := listed[f.Name]; c.Tier != f.Tier || c.Meaning != f.Meaning || c.Replacement != f.Replacement {
			t.Errorf("CARD-18 %s in contract.json is %+v; want %+v", f.Name, c, f)
		}
		if f.Tier == agentcard.Declared && !strings.Contains(plain, "| "+f.Name+" | "+f.Meaning) {
			t.Errorf("CARD-18 the section does not have %s: %s", f.Name, f.Meaning)
		}
	}
	for _, heading := range []string{"## Capability Declaration & Discovery", "### 1. Capability tiers", "### 2. Declaration requirements", "### 3. Version negotiation", "### 4. Safe discovery", "### 5. Multi-agent orchestration"} {
		if !strings.Contains(text, heading+"\n") {
			t.Errorf("CARD-18 the section has no heading %q", heading)
		}
	}
	if guide := read(t, "../CONTRIBUTING.md"); !strings.Contains(guide, "## Capabilities of agents") || strings.Count(guide, "- [ ]") < 8 {
		t.Error("CARD-18 CONTRIBUTING.md has no checklist for adding a capability")
	}
}

// TestCARD21_Proposals wants criteria for every issue that the proposal names.
func TestCARD21_Proposals(t *testing.T) {
	page := read(t, "../docs/reference/proposals.md")
	for _, issue := range []string{"1261", "1271", "1273", "1276", "1286", "1313", "1317"} {
		_, text, _ := strings.Cut(page, "\n## #"+issue+": ")
		text, _, _ = strings.Cut(text, "\n## ")
		if strings.Count(text, "- [ ] ") < 4 {
			t.Errorf("CARD-21 #%s has no criteria", issue)
		}
	}
}

// TestCARD8_ExamplesOfTheDocs reads the needs that docs/reference/cards.md shows.
func TestCARD8_ExamplesOfTheDocs(t *testing.T) {
	for _, example := range blocks(t, "../docs/reference/cards.md", "json needs") {
		if _, err := agentcard.ParseNeeds([]byte(example)); err != nil {
			t.Errorf("CARD-8 %v\n%s", err, example)
		}
	}
	for _, example := range blocks(t, "../docs/reference/cards.md", "json path") {
		var path struct {
			SharedContext bool `json:"shared_context"`
			Hops          []struct {
				From, To, Card string
				Needs          agentcard.Needs
			} `json:"hops"`
		}
		d := json.NewDecoder(bytes.NewReader([]byte(example)))
		d.DisallowUnknownFields()
		if err := d.Decode(&path); err != nil || len(path.Hops) == 0 {
			t.Errorf("CARD-9 %v\n%s", err, example)
		}
	}
}
