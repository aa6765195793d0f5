package e2e

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atc0005/go-teams-notify/v2/adaptivecard"
	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/slack-go/slack"
	gomail "github.com/wneessen/go-mail"

	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	pages "github.com/powerbox-project/powerbox/internal/web/console"
)

// evil is what an agent writes that wants a link, a mention, a header or markup.
const evil = "Pay\r\nBcc: all@evil.example\r\n\r\n<script>alert(1)</script> <https://evil.example|here> [here](https://evil.example) http://evil.example/x www.evil.example " +
	"<!channel> <!here> <@U123> <#C123> @everyone @channel <at>All</at> *now* _now_ `now` ~now~ \u202eoge"

// foreignMarks are marks of which a medium could make something out of foreign words.
var foreignMarks = []string{"<", ">", "@", "://", "evil.example", "www.e", "[", "](", "*", "_now", "`", "~", "\u202e", "\r", "Bcc: all@"}

func newsOf(event approval.Event, state issuer.State) approval.News {
	return approval.News{Event: event, URL: "https://powerbox.example.org/approve?q=ask_1", Question: approval.Question{
		ID: "ask_1", Kind: approval.ForCall, Agent: "mail", Requester: "mailer", Holder: "key:x", Principal: "user:alice", Purpose: evil, State: state,
		Expires: time.Date(2026, 11, 26, 18, 0, 0, 0, time.UTC), Needs: []approval.Need{{Self: true, People: 1}},
		Matters: []issuer.Matter{{Grant: "mail:send", Says: "Send mail", Operations: []issuer.Operation{{Name: "send"}}}},
	}}
}

func bodyOf(t *testing.T, hook approval.Webhook, n approval.News) approval.Message {
	t.Helper()
	w, err := approval.NewWebhooks([]approval.Webhook{hook}, pages.Summary, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	messages, err := w.Messages(n)
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d messages, %v", len(messages), err)
	}
	return messages[0]
}

// TestSlackReadsNoMarkupInAgentsWords decodes the messages by Slack's types: foreign words are in
// plain text alone, the fallback has none of them, and the button opens the page.
func TestSlackReadsNoMarkupInAgentsWords(t *testing.T) {
	asGiven(t)
	hook := approval.Webhook{Name: "slack", URL: "https://hooks.slack.example/x", Client: http.DefaultClient, Template: approval.TemplateSlack}
	for event, state := range map[approval.Event]issuer.State{approval.EventAsked: issuer.StatePending, approval.EventAnswered: issuer.StateApproved} {
		var m slack.WebhookMessage
		d := json.NewDecoder(bytes.NewReader(bodyOf(t, hook, newsOf(event, state)).Body))
		d.DisallowUnknownFields()
		if err := d.Decode(&m); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(m.Text, "Pay") || m.Blocks == nil {
			t.Fatalf("the fallback is %q, of %d blocks", m.Text, len(m.Blocks.BlockSet))
		}
		says, opens := "", ""
		for _, b := range m.Blocks.BlockSet {
			var text *slack.TextBlockObject
			switch b := b.(type) {
			case *slack.HeaderBlock:
				text = b.Text
			case *slack.SectionBlock:
				text = b.Text
			case *slack.ActionBlock:
				button, ok := b.Elements.ElementSet[0].(*slack.ButtonBlockElement)
				if !ok || len(b.Elements.ElementSet) != 1 || button.Value != "" {
					t.Fatalf("the action is %+v; want one button that opens the page", b.Elements)
				}
				opens, text = button.URL, button.Text
			default:
				t.Fatalf("block %T", b)
			}
			if err := text.Validate(); err != nil || text.Type != slack.PlainTextType || text.Emoji == nil || *text.Emoji {
				t.Errorf("%s: %+v, %v; want plain text", event, text, err)
			}
			says += text.Text + "\n"
		}
		told(t, string(event), says, state)
		if (event == approval.EventAsked) != (opens == "https://powerbox.example.org/approve?q=ask_1") {
			t.Errorf("%s: the button opens %q", event, opens)
		}
	}
}

// told expects the sentence of the page, the agent's words without marks, and what became of it.
func told(t *testing.T, name, says string, state issuer.State) {
	t.Helper()
	for _, mark := range foreignMarks {
		if strings.Contains(says, mark) {
			t.Errorf("%s: %q has %q of the agent's words", name, says, mark)
		}
	}
	want := "It waits until 26 Nov 18:00 UTC."
	if state == issuer.StateApproved {
		want = "It was approved."
	}
	if !strings.Contains(says, want) || !strings.Contains(says, "mailer wants at mail, now and once: Send mail (send)") || !strings.Contains(says, "In its own words: \u201cPay") {
		t.Errorf("%s: %q; want the sentence, the words and %q", name, says, want)
	}
}

// TestTeamsReadsNoMarkupInAgentsWords validates the messages as a client of Teams does: foreign
// words are in text runs alone, and the action opens the page.
func TestTeamsReadsNoMarkupInAgentsWords(t *testing.T) {
	asGiven(t)
	hook := approval.Webhook{Name: "teams", URL: "https://teams.example/x", Client: http.DefaultClient, Template: approval.TemplateTeams}
	for event, state := range map[approval.Event]issuer.State{approval.EventAsked: issuer.StatePending, approval.EventAnswered: issuer.StateApproved} {
		body := bodyOf(t, hook, newsOf(event, state)).Body
		var m adaptivecard.Message
		if err := json.Unmarshal(body, &m); err != nil {
			t.Fatal(err)
		}
		if err := m.Validate(); err != nil {
			t.Errorf("%s: %v", event, err)
		}
		var runs struct {
			Attachments []struct {
				Content struct {
					Body []struct {
						Type    string
						Inlines []struct{ Type, Text string }
					}
				}
			}
		}
		if err := json.Unmarshal(body, &runs); err != nil {
			t.Fatal(err)
		}
		says := ""
		for _, b := range runs.Attachments[0].Content.Body {
			if b.Type != "RichTextBlock" || len(b.Inlines) != 1 || b.Inlines[0].Type != "TextRun" {
				t.Fatalf("%s: block %+v; want one text run", event, b)
			}
			says += b.Inlines[0].Text + "\n"
		}
		told(t, string(event), says, state)
		actions := m.Attachments[0].Content.Actions
		if event == approval.EventAsked && (len(actions) != 1 || actions[0].Type != "Action.OpenUrl" || actions[0].URL != "https://powerbox.example.org/approve?q=ask_1") || event != approval.EventAsked && len(actions) > 0 {
			t.Errorf("%s: actions %+v", event, actions)
		}
	}
}

// mailbox is an SMTP server of another hand, with STARTTLS and accounts.
type mailbox struct {
	mu   sync.Mutex
	to   []string
	data [][]byte
	bad  bool // refuses everything
}

type mailSession struct {
	*mailbox
	known bool
}

func (m *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return &mailSession{mailbox: m}, nil }

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		if s.known = username == "powerbox" && password == "secret of the mail server"; !s.known {
			return smtp.ErrAuthFailed
		}
		return nil
	}), nil
}

func (s *mailSession) Mail(string, *smtp.MailOptions) error {
	if !s.known || s.bad {
		return smtp.ErrAuthRequired
	}
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = append(s.to, to)
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data = append(s.data, data)
	return err
}

func (*mailSession) Reset()        {}
func (*mailSession) Logout() error { return nil }

func serveMail(t *testing.T, secured *tls.Config) (*mailbox, int) {
	t.Helper()
	box := &mailbox{}
	server := smtp.NewServer(box)
	server.Domain, server.TLSConfig = "mail.example.org", secured
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-served; err != nil && !errors.Is(err, smtp.ErrServerClosed) {
			t.Error(err)
		}
	})
	return box, l.Addr().(*net.TCPAddr).Port
}

// TestMailHasNoHeadersOrMarkupOfAgents sends questions and what became of them through an SMTP
// server with STARTTLS. The second message belongs to the first. A server without STARTTLS
// gets neither the password nor a message.
func TestMailHasNoHeadersOrMarkupOfAgents(t *testing.T) {
	asGiven(t)
	ca := newAuthority(t)
	_, _, own := ca.issue(x509.ExtKeyUsageServerAuth)
	box, port := serveMail(t, &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12})
	trusts := gomail.WithTLSConfig(&tls.Config{RootCAs: pool(ca.cert), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12})
	server := &approval.Mail{
		Host: "127.0.0.1", Port: port, From: "powerbox@example.org", To: []string{"desk@example.org"}, Addresses: map[string][]string{"user:alice": {"alice@example.org"}, "user:bob": {"bob@example.org"}},
		Username: "powerbox", Password: func() (string, error) { return "secret of the mail server", nil }, Options: []gomail.Option{trusts},
	}
	hook := approval.Webhook{Name: "mail-server", Mail: server}
	for n, one := range []approval.News{newsOf(approval.EventAsked, issuer.StatePending), newsOf(approval.EventAnswered, issuer.StateApproved)} {
		if err := server.Send(t.Context(), bodyOf(t, hook, one), time.Now()); err != nil {
			t.Fatal(err)
		}
		box.letter(t, n, one)
	}
	slices.Sort(box.to)
	if got := strings.Join(slices.Compact(box.to), " "); got != "alice@example.org desk@example.org powerbox@example.org" {
		t.Errorf("it went to %s", got)
	}
	bare, port := serveMail(t, nil)
	server.Port = port
	err := server.Send(t.Context(), bodyOf(t, hook, newsOf(approval.EventAsked, issuer.StatePending)), time.Now())
	if err == nil || len(bare.data) > 0 || strings.Contains(err.Error(), "secret of") {
		t.Errorf("without STARTTLS: %v, %d messages", err, len(bare.data))
	}
}

// letter reads the message with a number as a mail reader does.
func (m *mailbox) letter(t *testing.T, n int, one approval.News) {
	t.Helper()
	read, err := mail.ReadMessage(bytes.NewReader(m.data[n]))
	if err != nil {
		t.Fatal(err)
	}
	h := read.Header
	if h.Get("Bcc") != "" || h.Get("To") != "<powerbox@example.org>" || strings.Contains(h.Get("Subject"), "Pay") || h.Get("Message-Id") != "<"+string(one.Event)+"_ask_1.mail-server@example.org>" {
		t.Errorf("headers %v", h)
	}
	if want := "<asked_ask_1.mail-server@example.org>"; (h.Get("In-Reply-To") == want) != (one.Event != approval.EventAsked) {
		t.Errorf("%s: In-Reply-To %q", one.Event, h.Get("In-Reply-To"))
	}
	_, boundary, _ := strings.Cut(h.Get("Content-Type"), "boundary=")
	parts := multipart.NewReader(read.Body, strings.Trim(boundary, `"`))
	for _, kind := range []string{"text/plain", "text/html"} {
		p, err := parts.NextRawPart()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(quotedprintable.NewReader(p))
		if err != nil || !strings.HasPrefix(p.Header.Get("Content-Type"), kind) {
			t.Fatalf("%v, %v; want %s", p.Header, err, kind)
		}
		says := strings.ReplaceAll(string(data), "\r", "")
		if kind == "text/html" {
			if strings.Contains(says, "<script") || strings.Count(says, "<a ") != map[bool]int{true: 1}[one.Event == approval.EventAsked] {
				t.Errorf("HTML %s", says)
			}
			continue
		}
		told(t, kind, strings.ReplaceAll(says, one.URL, ""), one.Question.State)
		if strings.Contains(says, one.URL) != (one.Event == approval.EventAsked) {
			t.Errorf("%s: %s", one.Event, says)
		}
	}
}

// TestWebhookURLsAndPasswordsAreNotTold has a chat and a mail server fail, whose URL and password
// are secrets: neither the log nor the list of messages has them.
func TestWebhookURLsAndPasswordsAreNotTold(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	secret := gone.URL + "/services/T0/B0/secret-of-the-url"
	gone.Close()
	w := start(t, options{
		mail: ", approval: true", files: map[string]string{"slack.url": secret + "\n", "mail.password": "secret-of-the-mail\n"},
		extra: "approvals:\n  webhooks:\n    - {name: slack, url_file: slack.url, template: slack, private: true}\n  mail: {server: \"127.0.0.1:" + freePort(t) + "\", from: powerbox@example.org, to: [desk@example.org], username: powerbox, password_file: mail.password}\n",
	})
	alice := w.caller(aliceToken)
	held := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "Pay"})[0]
	heldIn(t, alice.mailsUnder(held, "bob@example.org"))
	var listed string
	w.soon("both messages are tried in vain", func() bool {
		listed = w.run("approval", "webhooks")
		return strings.Count(listed, "1") >= 2
	})
	for _, text := range []string{w.log.String(), listed} {
		if strings.Contains(text, "secret-of-the") {
			t.Errorf("a secret stands in %s", text)
		}
	}
}
