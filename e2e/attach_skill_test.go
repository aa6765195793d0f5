package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
)

// TestAttachServesSkillURLs: a stock client that is pointed at the URL of a skill below
// attach, and sends text, calls that skill under the agent's own key and capability.
func TestAttachServesSkillURLs(t *testing.T) {
	w := start(t, options{mode: "require", agent: "    enforces: context\n"})
	a := w.attach("attach", newKey(t), "agents:\n  - name: documents\n    card: "+w.agentURL("documents")+"\n"+readReports, "--session-file", w.sessionFile())
	at := a.agentURL("documents") + "/skills/search_documents"
	card, err := agentcard.DefaultResolver.Resolve(t.Context(), at)
	if err != nil || len(card.Skills) != 1 || len(card.SupportedInterfaces) == 0 || !strings.HasPrefix(card.SupportedInterfaces[0].URL, at) {
		t.Fatalf("the card at %s: %v %+v", at, err, card)
	}
	client, err := a2aclient.NewFromCard(t.Context(), card)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("financial"))}); err != nil {
		t.Fatalf("%v\n%s", err, a.out)
	}
	if c := w.sent(); c.Holder != "key:"+a.key.Public().Thumbprint() || c.Basis != "capability" {
		t.Errorf("the call was made by %q on %q", c.Holder, c.Basis)
	}
	if records := w.records("operation=" + opSearch + "&limit=1"); len(records) != 1 {
		t.Errorf("no record of %s", opSearch)
	}
}

// TestAttachRefusesMCPServers: attach does not start in front of an MCP server, and
// names the command to use instead.
func TestAttachRefusesMCPServers(t *testing.T) {
	w := start(t, options{on: wire{overMCP, "2025-11-25"}})
	w.write("attach.yaml", "listen: 127.0.0.1:0\nagents:\n  - name: documents\n    card: "+w.agentURL("documents")+"\n")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, "attach", "--config", filepath.Join(w.dir, "attach.yaml"), "--key", w.keyFile("a.jwk", newKey(t))).CombinedOutput()
	for _, want := range []string{`agent "documents"`, "an MCP server, which attach does not serve", "powerbox request --by-reference", "powerbox gateway --stdio --mcp-exec"} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v; want %q:\n%s", err, want, out)
		}
	}
}
