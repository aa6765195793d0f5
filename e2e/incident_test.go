package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// incidentOf is what powerbox trace --incident says, in a few words.
type incidentOf struct {
	touched, through, came, delegated, live []string
	commands                                []string
}

func readIncident(t *testing.T, text string) (out incidentOf) {
	t.Helper()
	type calls []struct {
		Requester string `json:"requester"`
		Agent     string `json:"agent"`
		Operation string `json:"operation"`
		Allowed   int    `json:"allowed"`
		Refused   int    `json:"refused"`
	}
	var in struct {
		Touched   calls `json:"touched"`
		Through   calls `json:"through"`
		CameFrom  calls `json:"came_from"`
		Delegated []struct {
			Capability string `json:"capability"`
			To         string `json:"to"`
		} `json:"delegated"`
		Live []struct {
			ID string `json:"id"`
		} `json:"live"`
		Commands []string `json:"commands"`
	}
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for into, from := range map[*[]string]calls{&out.touched: in.Touched, &out.through: in.Through, &out.came: in.CameFrom} {
		for _, c := range from {
			*into = append(*into, fmt.Sprintf("%s %s %s %d %d", c.Requester, c.Agent, c.Operation, c.Allowed, c.Refused))
		}
	}
	for _, d := range in.Delegated {
		out.delegated = append(out.delegated, d.Capability+" to "+d.To)
	}
	for _, c := range in.Live {
		out.live = append(out.live, c.ID)
	}
	out.commands = in.Commands
	return out
}

// TestEXT28_IncidentOfAnAgent looks into the planner: the resources it touched,
// the actions of others for it, its live capabilities, and the commands that stop
// it. The test then runs those commands.
func TestEXT28_IncidentOfAnAgent(t *testing.T) {
	w := investigate(t)
	bundle := filepath.Join(t.TempDir(), "incident.jsonl")
	text := w.run("trace", "--incident", "planner", "--since", "2h", "--bundle", bundle, "--output", "json")
	got := readIncident(t, text)
	want := incidentOf{
		touched:   []string{"planner documents " + opDelete + " 0 1", "planner documents free text 1 0"},
		through:   []string{"documents mail " + opMail + " 1 0"},
		delegated: []string{w.child.ID + " to planner"},
		live:      []string{w.read.ID, w.child.ID},
		commands:  []string{"powerbox freeze agent:planner --reason 'incident'", "powerbox revoke " + w.read.ID},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(incidentOf{})); diff != "" {
		t.Fatalf("EXT-28:\n%s\n%s", diff, text)
	}
	if off := readIncident(t, offline(t, "trace", "--incident", "planner", "--from", bundle, "--output", "json")); !cmp.Equal(off.touched, want.touched) || !cmp.Equal(off.through, want.through) || off.live != nil {
		t.Errorf("from the bundle: %+v", off)
	}
	if docs := readIncident(t, w.run("trace", "--incident", "documents", "--output", "json")); !cmp.Equal(docs.came, want.touched) {
		t.Errorf("who asked the documents agent: %v", docs.came)
	}
	shown := w.run("trace", "--incident", "planner", "--since", "2h")
	if !strings.Contains(shown, "still valid: 2 on record") || !strings.Contains(shown, "\n  powerbox revoke "+w.read.ID+"\n") {
		t.Errorf("%s", shown)
	}
	for _, command := range got.commands[1:] {
		w.run(strings.Fields(command)[1:]...)
	}
	if a := w.planner.under([]string{w.child.Token}, w.child.ResourceHandles[0].Handle); a.reason() != "revoked" {
		t.Errorf("after the commands: %s", a.Raw)
	}
	if after := readIncident(t, w.run("trace", "--incident", "planner", "--output", "json")); after.live != nil {
		t.Errorf("live after the commands: %v", after.live)
	}
}

// TestEXT28_QueriesThatCannotBeMeant are refused: anyone who misspells a member would
// take everything for what it asked for.
func TestEXT28_QueriesThatCannotBeMeant(t *testing.T) {
	w := start(t, options{})
	for _, query := range []string{"agnet=documents", "limit=0", "limit=1001", "since=yesterday", "before=rec_none"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v1/records?"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+w.secret())
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", query, response.Status)
		}
	}
}

// TestEXT28_IncidentNamesWhomItPassedOnTo: what an agent narrowed for another one
// is that one's, is live, and dies with what it came from.
func TestEXT28_IncidentNamesWhomItPassedOnTo(t *testing.T) {
	w := investigate(t)
	mail := w.planner.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "tell the board"})[0]
	message := map[string]any{"role": "user", "parts": []any{map[string]any{"type": "text", "text": "Summarize this document"}}}
	allowed(t, w.planner.call("documents", "a2a/task/send", map[string]any{"message": message, "capabilities": []string{w.read.ID, mail.ID}}))
	handed := w.sent().Delegated
	if len(handed) != 1 || handed[0].Capability == mail.ID {
		t.Fatalf("handed over: %+v", handed)
	}
	got := readIncident(t, w.run("trace", "--incident", "planner", "--output", "json"))
	if want := handed[0].Capability + " to documents"; !slices.Contains(got.delegated, want) || !slices.Contains(got.live, handed[0].Capability) {
		t.Errorf("EXT-28: want %s in %+v", want, got)
	}
	if slices.Contains(got.commands, "powerbox revoke "+handed[0].Capability) || !slices.Contains(got.commands, "powerbox revoke "+mail.ID) {
		t.Errorf("EXT-28: what it came from is to be revoked, and takes it along: %v", got.commands)
	}
	w.run("revoke", mail.ID)
	if after := readIncident(t, w.run("trace", "--incident", "planner", "--output", "json")); slices.Contains(after.live, handed[0].Capability) {
		t.Errorf("EXT-28: what was passed on is live after the revocation: %v", after.live)
	}
}

// TestEXT28_DenialsLinkToTheCatalogue: in every binding a refusal says where its
// code is explained.
func TestEXT28_DenialsLinkToTheCatalogue(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/denials.md")
	if err != nil {
		t.Fatal(err)
	}
	overTools(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on})
		a := w.caller(aliceToken).send("documents", data("search_documents", nil))
		if a.reason() != "capability_required" {
			t.Fatalf("%s", a.Raw)
		}
		_, anchor, ok := strings.Cut(a.Error.Data[0].Metadata["doc"], "/docs/reference/denials.md#")
		if !ok || anchor != a.reason() || !strings.Contains(string(page), `<a id="`+anchor+`">`) {
			t.Errorf("EXT-28 it links to %q", a.Error.Data[0].Metadata["doc"])
		}
	})
}
