package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/powerbox-project/powerbox/token"

	"github.com/chromedp/chromedp"
)

// card has the agent say something else of itself, nil for what it said first.
func (s *stock) card(says func(*a2a.AgentCard)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.says = says
}

// more is a card with a skill without consent.
func more(c *a2a.AgentCard) {
	c.Skills = append(c.Skills[:len(c.Skills):len(c.Skills)], a2a.AgentSkill{ID: "send_money", Name: "Send money", Description: "Sends it anywhere", Tags: []string{"new"}})
}

// consentOf is what stopped at an agent, and the digest of its card.
func (w *town) consentOf(agent string) (digest string, changes string) {
	w.t.Helper()
	var c struct {
		Digest  string            `json:"card_digest"`
		Stopped []json.RawMessage `json:"stopped"`
	}
	if err := json.Unmarshal(w.operator(http.MethodGet, "/v1/registry/agents/"+agent+"/consent", nil), &c); err != nil {
		w.t.Fatal(err)
	}
	for _, s := range c.Stopped {
		changes += string(s)
	}
	return c.Digest, changes
}

// TestCARD13_GrantsStopWhereTheCardWidens: a grant made with one card in view stops
// when the card says more, with all that descends from it. It stops until someone
// consents, or until the card says no more than before. Later grants continue.
func TestCARD13_GrantsStopWhereTheCardWidens(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on})
		alice := w.caller(aliceToken)
		before := alice.reports()
		link := alice.derive("documents", []string{before.Token}, token.Narrowing{Holder: alice.key.Public()})
		search := func(chain ...string) answer {
			return alice.present("documents", data("search_documents", nil), proven{chain: chain, operation: opSearch})
		}
		allowed(t, search(before.Token))
		w.documents.card(more)
		w.again(func() {}) // so that the card is fetched again
		w.documents.forget()
		w.repel(t,
			attack{"CARD-13 the grant itself", "card_widened", func() answer { return search(before.Token) }},
			attack{"CARD-13 a link of it", "card_widened", func() answer { return search(link...) }},
			attack{"CARD-13 by reference", "card_widened", func() answer { return alice.send("documents", invoke("search_documents", nil, before.ID)) }},
		)
		if a := alice.attenuate(before.ID, map[string]any{"operations": []string{"search"}}); a.Error == nil || !strings.Contains(string(a.Raw), "card_widened") {
			t.Errorf("CARD-13 narrowed while it is stopped: %s", a.Raw)
		}
		allowed(t, search(alice.reports().Token)) // made with the new card in view
		digest, changes := w.consentOf("documents")
		if !strings.Contains(changes, "send_money") || digest == "" {
			t.Errorf("CARD-13 what waits at %s: %s", digest, changes)
		}
		w.operator(http.MethodPost, "/v1/registry/agents/documents/consent", map[string]any{"card_digest": digest})
		allowed(t, search(before.Token))
		allowed(t, search(link...))
		w.again(func() {})
		allowed(t, search(before.Token)) // consent outlives the server
	})
}

// TestCARD13_Consent: consent is to the card that was looked at, on the command line
// and on the page, and to no later one; a card that says no more than before needs
// none. No caller can bypass it.
func TestCARD13_Consent(t *testing.T) {
	w := start(t, options{policies: defaultPolicies + asking, dev: reviewers, host: "localhost", extra: "approvals: {operators: [\"user:carol\"]}\n"})
	alice := w.caller(aliceToken)
	c := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "Tell Bob"})[0]
	send := func() answer {
		args := map[string]any{"to": "bob"}
		return alice.present("mail", data("send_mail", args), proven{chain: []string{c.Token}, operation: "mail/mail:send/send", arguments: args})
	}
	says := func(card func(*a2a.AgentCard)) {
		w.mail.card(card)
		w.again(func() {})
	}
	allowed(t, send())
	says(func(card *a2a.AgentCard) { card.Capabilities.ExtendedAgentCard = false })
	allowed(t, send()) // it says less
	says(more)
	denied(t, send(), "card_widened")
	says(nil)
	allowed(t, send()) // as it was agreed to
	says(more)
	denied(t, send(), "card_widened")

	// In observe a card stops nothing, and what an operator froze is stopped all the same.
	w.operator(http.MethodPut, "/v1/agents/mail/mode", map[string]string{"mode": "observe"})
	allowed(t, send())
	w.operator(http.MethodPost, "/v1/freezes", map[string]string{"target": c.ID, "reason": "incident"})
	denied(t, send(), "frozen")
	w.operator(http.MethodPost, "/v1/thaws", map[string]string{"target": c.ID, "reason": "over"})
	w.operator(http.MethodPut, "/v1/agents/mail/mode", map[string]string{"mode": "require"})
	denied(t, send(), "card_widened")

	digest, stopped := w.consentOf("mail")
	_, issued, _ := strings.Cut(stopped, `"issued_under":"`)
	issued, _, _ = strings.Cut(issued, `"`)
	if out, exit := shell(t, w.dir, "powerbox grant consent mail"); exit != 3 || !strings.Contains(out, "skill send_money") || !strings.Contains(out, digest) {
		t.Errorf("CARD-13 what waits: exit %d\n%s", exit, out)
	}
	if out, exit := shell(t, w.dir, "powerbox grant consent mail --card-digest sha256:0"); exit != 1 {
		t.Errorf("CARD-13 consent to another card: exit %d\n%s", exit, out)
	}
	if out, exit := shell(t, w.dir, "powerbox thaw card:mail:"+issued+" --reason mine"); exit == 0 || !strings.Contains(out, "grant consent") {
		t.Errorf("ATK-53 thawed\n%s", out)
	}
	if out, exit := shell(t, w.dir, "powerbox registry remove mail"); exit == 0 || !strings.Contains(out, "mail") {
		t.Errorf("CARD-13 the cards of a protected agent were forgotten: exit %d\n%s", exit, out)
	}
	dora, carol := w.atPage("dora"), w.atPage("carol")
	form := url.Values{"grants": {"all"}, "card_digest": {digest}}
	if status, _ := dora.post("/registry/mail/accept", form); status != http.StatusForbidden {
		t.Errorf("CARD-13 dora consents: HTTP %d", status)
	}
	denied(t, send(), "card_widened")
	if status, page := carol.get("/registry/mail"); status != http.StatusOK || !strings.Contains(page, "Grants stopped") || !strings.Contains(page, "send_money") {
		t.Errorf("CARD-13 the page: HTTP %d\n%s", status, page)
	}
	if status, _ := carol.post("/registry/mail/accept", form); status != http.StatusForbidden {
		t.Errorf("ATK-53 carol consents without a passkey: HTTP %d; want 403", status)
	}
	denied(t, send(), "card_widened")
	b := openBrowser(t)
	b.authenticator()
	b.login(w.url, "carol", "/passkeys")
	b.passkey(w.url)
	b.do(chromedp.Navigate(w.url + "/registry/mail"))
	b.press("section[aria-labelledby=stopped] button.approve", "dl")
	allowed(t, send())

	// Consent is to that card: one that says more still stops it again.
	says(func(card *a2a.AgentCard) {
		more(card)
		card.Skills[0].Description = "Sends mail, and a copy to somebody"
	})
	denied(t, send(), "card_widened")
	digest, _ = w.consentOf("mail")
	if out, exit := shell(t, w.dir, "powerbox grant consent mail --card-digest "+digest); exit != 0 || !strings.Contains(out, "goes on") {
		t.Errorf("CARD-13 consent on the command line: exit %d\n%s", exit, out)
	}
	allowed(t, send())
	for _, r := range w.records("agent=mail&limit=100") {
		if r.Action == "operator.thaw" && strings.Contains(string(w.operator(http.MethodGet, "/v1/records/"+r.ID, nil)), "user:carol consented") {
			return
		}
	}
	t.Error("CARD-13 nothing on record says who consented")
}

// TestATK53_AtAGatewayApart: a remote gateway sees the card first, and the
// grants stop there as well.
func TestATK53_AtAGatewayApart(t *testing.T) {
	w, replicas := startRemote(t, 1, options{})
	alice := w.caller(aliceToken)
	c := alice.reports()
	search := func() answer {
		return alice.present("documents", data("search_documents", nil), proven{chain: []string{c.Token}, operation: opSearch})
	}
	allowed(t, search())
	w.documents.card(more)
	pid := replicas[0].process.Process.Pid
	if err := replicas[0].process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, stepTime, func() string { return "the gateway does not end" }, func() bool { return syscall.Kill(pid, 0) != nil })
	replicas[0].boot()
	w.documents.forget()
	last := search()
	eventually(t, stepTime, func() string { return string(last.Raw) }, func() bool {
		if last.reason() == "proof_before_start" { // it remembers none of before its start
			last = search()
		}
		return last.reason() != "proof_before_start"
	})
	denied(t, last, "card_widened")
	if n := len(w.documents.got()); n != 0 {
		t.Errorf("ATK-53 %d calls reached the agent", n)
	}
	digest, changes := w.consentOf("documents")
	if !strings.Contains(changes, "send_money") {
		t.Errorf("ATK-53 what waits: %s", changes)
	}
	w.operator(http.MethodPost, "/v1/registry/agents/documents/consent", map[string]any{"card_digest": digest})
	eventually(t, stepTime, func() string { return "what somebody consented to does not go on" }, func() bool { return search().Error == nil })
}
