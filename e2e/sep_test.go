package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSEP10_InvokeUnderACapability(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	c := alice.reports()
	if len(c.ResourceHandles) != 2 || c.Principal != "user:alice" {
		t.Fatalf("got %+v", c)
	}
	args := map[string]any{"resourceHandle": c.ResourceHandles[0].Handle}
	for name, body := range map[string][]byte{
		"a2a/skill/invoke":    invoke("retrieve_document", args, ""),
		"SendMessage by data": data("retrieve_document", args),
	} {
		a := alice.present("documents", body, proven{chain: []string{c.Token}, operation: opRetrieve, arguments: args})
		if a.Error != nil || !strings.Contains(string(a.Result), "echo") {
			t.Errorf("%s: %s\n%s", name, a.Raw, w.log)
		}
	}
	for _, r := range w.documents.got() {
		if r.header.Get("Powerbox-Context") == "" || r.header.Get("Powerbox-Capability") != "" || r.header.Get("Powerbox-Proof") != "" {
			t.Errorf("the agent behind got %v", r.header)
		}
	}
	b, _ := json.Marshal(c)
	if strings.Contains(string(b), "/vault/") {
		t.Errorf("a real identifier left: %s", b)
	}
}
