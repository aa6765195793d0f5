package e2e

import (
	"bytes"
	"net/http"
	"testing"
	"time"
)

// TestATK52_AScoreIsNobodysToRaise has an agent try everything by which its own
// score could rise: work that it asks of itself, reading in a loop, requests of
// capabilities, submissions to every place that takes something (EXT-20).
func TestATK52_AScoreIsNobodysToRaise(t *testing.T) {
	w := trusting(t, options{})
	alice := w.caller(aliceToken)
	held := alice.mailGrant()
	w.mail.answers(failing)
	alice.mails(held, 2)
	w.mail.answers(nil)
	before := w.scores("mail")
	if before.Score != "0.6000" || before.Counts.Failed != 2 {
		t.Fatalf("%+v", before)
	}
	own := w.reader.mailGrant()
	for range 5 {
		w.reader.mailGrant()
	}
	allowed(t, w.reader.mails(own, 5))
	for range 5 {
		w.reader.present("mail", rpc("ListTasks", map[string]any{}), proven{chain: []string{own.Token}, operation: "a2a.task.read"})
		w.reader.call("mail", "a2a/capabilities/list", map[string]any{})
	}
	for _, at := range []struct{ method, path string }{
		{http.MethodPost, "/v1/records"},
		{http.MethodPut, "/v1/trust/mail"},
		{http.MethodPost, "/v1/trust/mail"},
		{http.MethodPost, "/v1/records/ship"},
		{http.MethodPost, "/v1/gateway/status"},
		{http.MethodPost, "/v1/agents/mail/keys"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), at.method, w.url+at.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = w.reader.headers(w.url + at.path)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode < 400 {
			t.Errorf("%s %s is answered with %s", at.method, at.path, response.Status)
		}
	}
	if after := w.scores("mail"); after.Score != before.Score || after.Counts != before.Counts {
		t.Errorf("its score is %+v; it was %+v", after, before)
	}
}

// TestATK52_AScoreIsNobodysToLower has a caller try to lower another's: by bad
// input, by denied calls, by leaving in the middle of a stream.
func TestATK52_AScoreIsNobodysToLower(t *testing.T) {
	w := trusting(t, options{})
	alice := w.caller(aliceToken)
	held := alice.mailGrant()
	allowed(t, alice.mails(held, 1))
	w.mail.answers(badInput)
	alice.mails(held, 5)
	w.mail.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) })
	alice.mails(held, 5)
	w.mail.answers(nil)
	for range 5 {
		w.caller("").mails(held, 1) // another's capability
	}
	raw := &rawAgent{stock: w.mail}
	raw.quiet()
	w.mail.answers(raw.call)
	args := map[string]any{"to": "x"}
	body := bytes.Replace(data("send_mail", args), []byte(`"SendMessage"`), []byte(`"SendStreamingMessage"`), 1)
	w.open("mail", body, alice.proof("mail", body, proven{chain: []string{held.Token}, operation: "mail/mail:send/send", arguments: args})).leave()
	w.mail.answers(nil)
	eventually(t, 10*time.Second, func() string { return "what became of the stream is not recorded\n" + w.log.String() }, func() bool {
		for _, r := range w.records("agent=mail") {
			if r.Outcome.Cause == "caller_left" {
				return true
			}
		}
		return false
	})
	if s := w.scores("mail"); s.Score != "1.0000" || s.Counts.Achieved != 1 || s.Counts.Failed+s.Counts.Partial != 0 {
		t.Errorf("%+v", s)
	}
}

// TestATK52_Whitewashing leaves a bad score behind by another name, another key,
// another way to ask: none of them is known by anything, and nothing is the lowest
// level. A score lets nothing through that would be denied without it.
func TestATK52_Whitewashing(t *testing.T) {
	overTools(t, func(t *testing.T, on wire) {
		ghost := &caller{}
		w := start(t, options{on: on, agent: "    trust: LOW\n", callersOf: func(w *town) string {
			*ghost = *w.caller(aliceToken)
			return "  callers:\n    - {agent: mail, key: " + w.reader.key.Public().Thumbprint() + "}\n    - {agent: ghost, key: " + ghost.key.Public().Thumbprint() + "}"
		}})
		w.reader.session = aliceToken
		stranger := w.caller(aliceToken)
		search := func(c *caller, held granted) answer {
			args := map[string]any{"query": "x"}
			return c.present("documents", data("search_documents", args), proven{chain: []string{held.Token}, operation: opSearch, arguments: args})
		}
		known, unknown, named := w.reader.reports(), stranger.reports(), ghost.reports()
		w.repel(
			t,
			attack{"ATK-52 another key", "insufficient_trust", func() answer { return search(stranger, unknown) }},
			attack{"ATK-52 a name without history", "insufficient_trust", func() answer { return search(ghost, named) }},
		)
		allowed(t, search(w.reader, known))
		if on.binding == overMCP {
			return // it has no words beside its tools
		}
		w.documents.forget()
		w.threshold("HIGH")
		w.again(func() { w.rewrite("powerbox.yaml", "trust: LOW", "admit_free_text: unsafe") })
		free := func(c *caller, held granted) answer {
			return c.present("documents", text("SendMessage", "search for x"), proven{chain: []string{held.Token}, operation: "a2a.message"})
		}
		w.repel(
			t,
			attack{"ATK-52 by free text", "insufficient_trust", func() answer { return free(stranger, unknown) }},
			attack{"ATK-52 without a capability", "capability_required", func() answer { return w.reader.send("documents", data("search_documents", map[string]any{})) }},
			attack{"ATK-52 trust is no grant", "operation_not_granted", func() answer {
				return w.reader.present("documents", data("archive_document", map[string]any{}), proven{chain: []string{known.Token}, operation: "documents/documents:admin/archive"})
			}},
		)
		allowed(t, free(w.reader, known))
	})
}

// TestATK52_AtAGatewayApart: a remote gateway holds callers to the levels that the
// server tells it.
func TestATK52_AtAGatewayApart(t *testing.T) {
	w, all := startRemote(t, 1, options{callersOf: func(w *town) string {
		return "  callers:\n    - {agent: mail, key: " + w.reader.key.Public().Thumbprint() + "}"
	}, agent: "    trust: HIGH"})
	w.reader.session = aliceToken
	alice := w.caller(aliceToken)
	mail := alice.mailGrant()
	held := w.reader.reports()
	if a := w.reader.looksUp(held); a.Error != nil {
		t.Fatalf("of the highest level: %s", a.Raw)
	}
	if a := alice.looksUp(alice.reports()); a.reason() != "insufficient_trust" {
		t.Errorf("of none: %s", a.Raw)
	}
	w.mail.answers(failing)
	alice.mails(mail, 1)
	eventually(t, 15*time.Second, func() string { return "a score that has fallen changes nothing apart\n" + all[0].log.String() }, func() bool {
		return w.reader.looksUp(held).reason() == "insufficient_trust"
	})
}
