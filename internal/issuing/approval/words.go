package approval

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// wording is what people are told of a question, before it has the form of a medium. Says
// is the sentence that the page shows, without arguments and resources: these are for the
// page, behind a login. Quote is in the agent's own words, and harmless in every medium.
type wording struct {
	Subject, Says, Quote string
	Then                 string // what became of it, or until when it waits
	URL                  string // of the page, "" where there is nothing to answer
}

// word words news. Says is the sentence of the page.
func word(n News, says string) wording {
	q := n.Question
	quote := agentauth.Quotable(unlinked(harmless(agentauth.Plain(q.Purpose, maxWords))))
	out := wording{Subject: subjects[n.Event], Says: agentauth.Plain(says, maxWords), Quote: agentauth.Plain(quote, maxWords)}
	switch n.Event {
	case EventAnswered:
		out.Then = q.ended()
	case EventAlert:
		out.Then = "People have refused it again and again: it may be hijacked."
	case EventAsked, EventOverdue:
		out.Then, out.URL = "It waits until "+q.Expires.UTC().Format("2 Jan 15:04 MST")+".", n.URL
	}
	return out
}

// unlinked is a text in which no reader finds an address to make a link of: a dot inside a
// word is a dot that addresses do not have.
func unlinked(s string) string {
	runes := []rune(s)
	for n := 1; n+1 < len(runes); n++ {
		if runes[n] == '.' && runes[n-1] != ' ' && runes[n+1] != ' ' {
			runes[n] = '\u2024'
		}
	}
	return string(runes)
}

// quoted is the agent's words between quotation marks that they cannot end, "" for none.
func (w wording) quoted() string {
	if w.Quote == "" {
		return ""
	}
	return "In its own words: \u201c" + w.Quote + "\u201d"
}

// text is everything in one line, for receivers that may read markup in it.
func (w wording) text() string {
	parts := []string{w.Subject + ": " + strings.TrimSuffix(harmless(w.Says), ".") + "."}
	if quoted := w.quoted(); quoted != "" {
		parts = append(parts, quoted+".")
	}
	parts = append(parts, w.Then)
	if w.URL != "" {
		parts = append(parts, "Look at it: "+w.URL)
	}
	return strings.Join(parts, " ")
}

const openIt = "Open the question"

// slack is a message of Block Kit. Foreign words stand in plain_text, which Slack reads no
// markup, links or mentions in; the fallback, which it does read, has none of them.
func (w wording) slack() ([]byte, error) {
	plain := func(text string) map[string]any {
		return map[string]any{"type": "plain_text", "text": text, "emoji": false}
	}
	section := func(text string) map[string]any { return map[string]any{"type": "section", "text": plain(text)} }
	blocks := []any{map[string]any{"type": "header", "text": plain(w.Subject)}, section(w.Says)}
	if quoted := w.quoted(); quoted != "" {
		blocks = append(blocks, section(quoted))
	}
	blocks = append(blocks, section(w.Then))
	if w.URL != "" {
		blocks = append(blocks, map[string]any{"type": "actions", "elements": []any{
			map[string]any{"type": "button", "action_id": "open", "text": plain(openIt), "url": w.URL},
		}})
	}
	return json.Marshal(map[string]any{"text": w.Subject + ".", "blocks": blocks, "unfurl_links": false, "unfurl_media": false})
}

// teams is a message with an Adaptive Card. Foreign words stand in text runs, which Teams reads
// no markup in.
func (w wording) teams() ([]byte, error) {
	says := func(text, weight string) map[string]any {
		return map[string]any{"type": "RichTextBlock", "inlines": []any{map[string]any{"type": "TextRun", "text": text, "weight": weight}}}
	}
	body := []any{says(w.Subject, "bolder"), says(w.Says, "default")}
	if quoted := w.quoted(); quoted != "" {
		body = append(body, says(quoted, "default"))
	}
	card := map[string]any{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4", "body": append(body, says(w.Then, "default"))}
	if w.URL != "" {
		card["actions"] = []any{map[string]any{"type": "Action.OpenUrl", "title": openIt, "url": w.URL}}
	}
	return json.Marshal(map[string]any{"type": "message", "attachments": []any{
		map[string]any{"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil, "content": card},
	}})
}

// maxWords is how long one text of a message is at most; Slack refuses more than 3000
// characters.
const maxWords = 2000

// plainly is the sentence where no page is there to word it.
func plainly(q Question, _ time.Time) string {
	var asks []string
	for _, m := range q.Matters {
		for _, op := range m.Operations {
			asks = append(asks, m.Grant+"/"+op.Name)
		}
	}
	return fmt.Sprintf("%s wants at %s: %s", q.Requester, q.Agent, strings.Join(asks, ", "))
}
