package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/token"
)

// TestEXT1_StrangersTellRevokedFromLive has a peer without credentials follow
// revocation_endpoint of the card with a stock HTTP client, and ask about capabilities
// that it was shown. It learns yes or no, and nothing about anything else.
func TestEXT1_StrangersTellRevokedFromLive(t *testing.T) {
	s := newScopeTown(t, options{})
	endpoint, _ := s.params()["revocation_endpoint"].(string)
	ask := func(kind, body string) (int, string) {
		t.Helper()
		response, err := http.Post(endpoint, kind, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, strings.TrimSpace(string(text))
	}
	want := func(what, body, answer string) {
		t.Helper()
		if code, text := ask("application/json", body); code != http.StatusOK || text != answer {
			t.Errorf("EXT-1 %s: %d %s; want %s", what, code, text, answer)
		}
	}
	const live, dead = `{"active":true}`, `{"active":false}`
	chain := func(tokens ...string) string {
		text, err := json.Marshal(map[string]string{"chain": strings.Join(tokens, ",")})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	scoped := func(links ...json.RawMessage) string {
		q := map[string]any{"capability_token": json.RawMessage(s.held.Token)}
		if links != nil {
			q["delegation_chain"] = links
		}
		text, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}

	one, two, three := s.alice.reports(), s.alice.reports(), s.alice.reports()
	child := capabilities(t, s.alice.attenuate(one.ID, map[string]any{"operations": []string{"search"}}))[0]
	link := s.toBob("shown", scopeSearch)
	offline := s.alice.derive("documents", []string{two.Token}, token.Narrowing{Holder: s.bob.key.Public()})
	elsewhere := s.alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "p"})[0]
	want("a live capability", chain(one.Token), live)
	want("one that was narrowed from it", chain(child.Token), live)
	want("a live scope token", scoped(), live)
	want("a scope token with a link", scoped(link), live)
	want("a chain that was derived offline", chain(offline...), live)
	want("a capability of another agent", chain(elsewhere.Token), dead)
	want("a token that is not whole", chain(one.Token[:len(one.Token)-2]), dead)
	want("an id alone", chain(one.ID), dead)
	want("a link by another key", scoped(s.bob.link(s.bob.did(), []string{scopeSearch}, s.until, "n")), dead)

	s.run("revoke", one.ID)
	want("revoked", chain(one.Token), dead)
	want("narrowed from what was revoked", chain(child.Token), dead)
	want("another of the same holder", chain(two.Token), live)
	s.run("freeze", two.ID, "--reason", "r")
	want("frozen", chain(two.Token), dead)
	want("derived from what is frozen", chain(offline...), dead)
	s.run("thaw", two.ID, "--reason", "r")
	want("thawed", chain(two.Token), live)
	s.run("revoke", s.held.ID)
	want("a revoked scope token", scoped(), dead)
	want("its link", scoped(link), dead)
	want("a capability beside it", chain(three.Token), live)
	s.run("revoke", "--for", "user:alice")
	want("revoked with everything of its user", chain(three.Token), dead)

	for what, q := range map[string]struct {
		kind, body string
		code       int
	}{
		"a form, by which RFC 7009 revokes": {"application/x-www-form-urlencoded", url.Values{"token": {three.Token}}.Encode(), http.StatusUnsupportedMediaType},
		"nothing":                           {"application/json", "{}", http.StatusBadRequest},
		"an unknown member":                 {"application/json", `{"capability":"` + three.ID + `"}`, http.StatusBadRequest},
		"a member twice":                    {"application/json", `{"chain":"a","chain":"b"}`, http.StatusBadRequest},
		"too much":                          {"application/json", chain(strings.Repeat("a", 256<<10)), http.StatusRequestEntityTooLarge},
	} {
		if code, text := ask(q.kind, q.body); code != q.code {
			t.Errorf("EXT-1 %s: %d %s", what, code, text)
		}
	}
	response, err := http.Get(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || kind != "application/statuslist+jwt" {
		t.Errorf("EXT-1 the list of it all: %s %s", response.Status, kind)
	}
	endpoint = strings.Replace(endpoint, "documents", "nobody", 1)
	if code, _ := ask("application/json", chain(three.Token)); code != http.StatusNotFound {
		t.Errorf("EXT-1 an agent that is not there: %d", code)
	}
}
