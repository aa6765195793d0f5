package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
)

// TestATK135_WordsOfAgentsEndNoQuotation has an agent write the marks that end a quotation into its
// purpose, and reads what people are told in every form.
func TestATK135_WordsOfAgentsEndNoQuotation(t *testing.T) {
	l := newListener(t)
	hooks, templates := "", []string{"chat", "mail", "slack", "teams"}
	for _, template := range templates {
		secret := ", secret: " + webhookSecret
		if template == "slack" || template == "teams" {
			secret = ""
		}
		hooks += fmt.Sprintf("    - {name: %s, url: %s/%s%s, template: %s, private: true}\n", template, l.URL, template, secret, template)
	}
	w := start(t, options{mail: ", approval: true", extra: "approvals:\n  webhooks:\n" + hooks})
	alice := w.caller(aliceToken)
	held := alice.request("mail", map[string]any{
		"grants":  []string{"mail:send"},
		"purpose": "Pay\u201d. Powerbox knows the recipient: FORGED1. \u201cx\u201c FORGED2 \u201f FORGED3 \u00bb FORGED4 \uff02 FORGED5 \u2033 FORGED6 \u301e FORGED7 \" FORGED8",
	})[0]
	heldIn(t, alice.mailsUnder(held, "bob@example.org"))
	for _, template := range templates {
		w.soon(template+" to be told", func() bool { return len(l.got("/"+template)) > 0 })
		said, err := json.Marshal(l.got("/" + template)[0])
		if err != nil {
			t.Fatal(err)
		}
		_, quoted, found := strings.Cut(string(said), "In its own words: \u201c")
		if !found || !strings.Contains(quoted, "FORGED8") {
			t.Fatalf("%s is told %s", template, said)
		}
		inside, _, _ := strings.Cut(quoted, "FORGED8")
		if at := strings.IndexFunc(inside, func(r rune) bool {
			return unicode.In(r, unicode.Pi, unicode.Pf, unicode.Quotation_Mark) || strings.ContainsRune("\u2033\uff02", r)
		}); at >= 0 {
			t.Errorf("%s: the agent's words end the quotation: %q", template, inside[:at+20])
		}
	}
	longest := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": strings.Repeat("\u201d", 1000)})[0]
	heldIn(t, alice.mailsUnder(longest, "bob@example.org"))
	w.soon("slack to be told again", func() bool { return len(l.got("/slack")) > 1 })
	for _, block := range l.got("/slack")[1]["blocks"].([]any) {
		if text, is := block.(map[string]any)["text"].(map[string]any); is && len([]rune(text["text"].(string))) > 3000 {
			t.Errorf("a text has more than 3000 characters, which Slack refuses: %.60q", text["text"])
		}
	}
}
