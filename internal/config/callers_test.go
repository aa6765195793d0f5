package config_test

import (
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/config"
)

// load reads one text as the configuration, with an environment.
func load(text string, env ...string) error {
	_, err := config.Load("powerbox.yaml", func(string) ([]byte, error) { return []byte(text), nil }, env)
	return err
}

// TestBuiltInUserIsNoClient: a rule that names a built-in user as a client would match no caller.
func TestBuiltInUserIsNoClient(t *testing.T) {
	rule := func(client string) string {
		return "identity:\n  dev: [{name: dev, token: session-of-dev}]\n  callers: [{agent: mine, client: '" + client + "'}]\n"
	}
	err := load(rule("dev:dev"))
	for _, want := range []string{"identity.callers[0].client", `"dev:dev" is a built-in user`, "powerbox keys new FILE", "key: THUMBPRINT"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if err := load(rule("dev:other")); err != nil {
		t.Errorf("a client of an identity provider: %v", err)
	}
}

// TestMisspeltVariableNamesTheNearest: of many settings the message has three, and where all are.
func TestMisspeltVariableNamesTheNearest(t *testing.T) {
	err := load("{}", "POWERBOX_EVIDENCE_KEEP=1")
	if err == nil || strings.Count(err.Error(), "POWERBOX_") != 4 || strings.Count(err.Error(), "POWERBOX_EVIDENCE_") != 4 ||
		!strings.Contains(err.Error(), "the nearest of ") || !strings.Contains(err.Error(), "docs/reference/configuration.md lists all") {
		t.Errorf("%v", err)
	}
	if err := load("{}", "POWERBOX_ISSUER_ULR=1"); err == nil || !strings.Contains(err.Error(), `did you mean "POWERBOX_ISSUER_URL"?`) {
		t.Errorf("%v", err)
	}
}
