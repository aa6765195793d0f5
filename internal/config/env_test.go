package config

import (
	"strings"
	"testing"
)

// A shell in which someone uses powerbox agent, as docs/how-to/agent-auth-client.md has it, can start a
// server; a setting that is none is still refused.
func TestVariablesOfAgentsAreNoSettings(t *testing.T) {
	read := func(string) ([]byte, error) {
		return []byte("issuer: {url: \"http://127.0.0.1:8787\"}\nagents: [{id: a, upstream: \"http://127.0.0.1:9001\"}]\n"), nil
	}
	if _, err := Load("powerbox.yaml", read, append([]string{"POWERBOX_AGENTS_PASSPHRASE=at least sixteen bytes"}, "POWERBOX_AGENTS_STORE=x", "POWERBOX_AGENTS_PROVIDERS=y")); err != nil {
		t.Errorf("with variables of agents: %v", err)
	}
	if _, err := Load("powerbox.yaml", read, []string{"POWERBOX_AGENTS_NAME=x"}); err == nil || !strings.Contains(err.Error(), "POWERBOX_AGENTS_NAME") {
		t.Errorf("a setting that is none: %v", err)
	}
}
