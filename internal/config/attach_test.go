package config_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/config"
)

const attachDocument = "../../docs/how-to/attach.md"

func loadAttach(text string) (*config.Attach, error) {
	return config.LoadAttach("dir/attach.yaml", func(string) ([]byte, error) { return []byte(text), nil })
}

// The table of docs/how-to/attach.md is generated: go test ./internal/config -update
// writes it.
func TestAttachTable(t *testing.T) {
	text, err := os.ReadFile(attachDocument)
	if err != nil {
		t.Fatal(err)
	}
	start := bytes.Index(text, []byte("| key | type |"))
	if start < 0 {
		t.Fatal("docs/how-to/attach.md has no table of keys")
	}
	length := bytes.Index(text[start:], []byte("\n\n"))
	if length < 0 {
		length = len(text[start:]) - 1
	}
	end := start + length + 1
	if *update {
		next := append(append(append([]byte{}, text[:start]...), config.AttachTable()...), text[end:]...)
		if err := os.WriteFile(attachDocument, next, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(text[start:end], config.AttachTable()) {
		t.Errorf("the table of docs/how-to/attach.md is not up to date: go test ./internal/config -update")
	}
}

// The example of the document loads, and says what it is meant to.
func TestAttachExample(t *testing.T) {
	text, err := os.ReadFile(attachDocument)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "```yaml\n")
	example, _, ok := strings.Cut(after, "```")
	c, err := loadAttach(example)
	if !ok || err != nil {
		t.Fatal(err)
	}
	if c.Key != "dir/reporter.jwk" || c.Listen != "127.0.0.1:8790" || len(c.Agents) != 2 || c.Agents[0].Hand[0].Of != "documents" ||
		c.Inbound.ID != "reporter" || c.Inbound.URL != "http://"+c.Inbound.Listen {
		t.Errorf("%+v", c)
	}
}

func TestAttachRefuses(t *testing.T) {
	const agents = "agents:\n  - {name: a, card: \"http://x/agents/a\"}\n  - name: b\n    card: http://x/agents/b\n"
	for want, text := range map[string]string{
		"attach.yaml:1: lissen is unknown": "lissen: 127.0.0.1:1\n",
		"every program that reaches it":    agents + "listen: 0.0.0.0:8790\n",
		"agents[1].grpc":                   agents + "    grpc: 10.0.0.1:1\n",
		"is used twice":                    agents + "  - {name: a, card: \"http://x\"}\n",
		"is no other agent here":           agents + "    hand: [{of: c, skills: [x]}]\n",
		"agents[1].hand[0].of":             agents + "    hand: [{of: b, skills: [x]}]\n",
		"skills is missing":                agents + "    hand: [{of: a}]\n",
		"purpose is missing":               agents + "    request: [{skills: [x]}]\n",
		"out of range":                     agents + "    hand: [{of: a, skills: [x], depth: 17}]\n",
		"forward is missing":               agents + "inbound: {listen: \"127.0.0.1:1\", agent: \"http://x/agents/c\"}\n",
		"agent is missing":                 agents + "inbound: {listen: \"127.0.0.1:1\", forward: \"http://x\"}\n",
		"listen is missing":                agents + "inbound: {agent: \"http://x/agents/c\", forward: \"http://x\"}\n",
		"is not an absolute":               "agents: [{name: a, card: x}]\n",
		"a list":                           "[]\n",
	} {
		if _, err := loadAttach(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
	if _, err := config.LoadAttach("x", func(string) ([]byte, error) { return nil, os.ErrNotExist }); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
