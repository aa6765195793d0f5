package approval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wneessen/go-mail"
)

// Mail is an SMTP server that takes messages to people.
type Mail struct {
	Host      string
	Port      int
	Plain     bool // without STARTTLS, on this machine
	From      string
	To        []string            // addresses that get every message
	Addresses map[string][]string // of people and groups, which get those for them
	Username  string
	Password  func() (string, error) // nil for a server that wants none
	Options   []mail.Option          // further ones, for tests
}

// letter is a message to people as it waits.
type letter struct {
	Asked  []string `json:"to"` // people and groups
	Words  wording  `json:"words"`
	Begins string   `json:"begins"` // Message-ID of the first about the same question, "" for that itself
}

// page is the HTML of a letter. It has no links but the server's own.
var page = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("letter").Parse(`<!doctype html>
<html><body>
<p><b>{{.Words.Subject}}</b></p>
<p>{{.Words.Says}}</p>
{{with .Quoted}}<p>{{.}}</p>
{{end}}<p>{{.Words.Then}}</p>
{{with .Words.URL}}<p><a href="{{.}}">Open the question</a></p>
{{end}}</body></html>
`))
})

// Quoted is the agent's words as they stand in the page.
func (l letter) Quoted() string { return l.Words.quoted() }

// body is the text of a letter.
func (l letter) body() string {
	lines := []string{l.Words.Says}
	if quoted := l.Words.quoted(); quoted != "" {
		lines = append(lines, quoted)
	}
	lines = append(lines, l.Words.Then)
	if l.Words.URL != "" {
		lines = append(lines, "Open the question: "+l.Words.URL)
	}
	return strings.Join(lines, "\n\n") + "\n"
}

// letterOf words news as a letter.
func letterOf(n News, w wording, hook string) ([]byte, error) {
	l := letter{Asked: n.Question.asked(), Words: w}
	if n.Event != EventAsked {
		l.Begins = messageID(EventAsked, n.Question.ID, hook)
	}
	return json.Marshal(l)
}

// errNoAddress says that no address is configured for a message.
var errNoAddress = errors.New("no address is configured for those who are asked; add approvals.mail.to, or their addresses")

// Send delivers a message once.
func (m *Mail) Send(ctx context.Context, one Message, now time.Time) error {
	var l letter
	if err := json.Unmarshal(one.Body, &l); err != nil {
		return err
	}
	to := m.recipients(l.Asked)
	if len(to) == 0 {
		return &goneError{errNoAddress}
	}
	written, err := m.write(one, l, to, now)
	if err != nil {
		return err
	}
	client, err := m.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	return client.DialAndSendWithContext(ctx, written)
}

// write makes the message. The library encodes headers and bodies.
func (m *Mail) write(one Message, l letter, to []string, now time.Time) (*mail.Msg, error) {
	var html bytes.Buffer
	if err := page().Execute(&html, l); err != nil {
		return nil, err
	}
	written := mail.NewMsg()
	if err := errors.Join(written.From(m.From), written.Bcc(to...)); err != nil {
		return nil, err
	}
	if err := written.To(m.From); err != nil { // the others see no addresses of each other
		return nil, err
	}
	_, at, _ := strings.Cut(m.From, "@")
	at = strings.TrimRight(at, "> ")
	written.SetMessageIDWithValue(one.ID + "@" + at)
	if l.Begins != "" {
		written.SetGenHeader(mail.HeaderInReplyTo, "<"+l.Begins+"@"+at+">")
		written.SetGenHeader(mail.HeaderReferences, "<"+l.Begins+"@"+at+">")
	}
	written.SetDateWithValue(now)
	written.SetGenHeader("Auto-Submitted", "auto-generated")
	written.Subject(l.Words.Subject)
	written.SetBodyString(mail.TypeTextPlain, l.body())
	written.AddAlternativeString(mail.TypeTextHTML, html.String())
	return written, nil
}

// recipients are the addresses of those who are asked.
func (m *Mail) recipients(asked []string) []string {
	to := slices.Clone(m.To)
	for _, who := range asked {
		to = append(to, m.Addresses[who]...)
	}
	slices.Sort(to)
	return slices.Compact(to)
}

func (m *Mail) client() (*mail.Client, error) {
	policy := mail.TLSMandatory
	if m.Plain {
		policy = mail.NoTLS
	}
	options := []mail.Option{mail.WithPort(m.Port), mail.WithTLSPolicy(policy), mail.WithTimeout(tellTime), mail.WithHELO(helo(m.From))}
	if m.Password != nil {
		password, err := m.Password()
		if err != nil {
			return nil, fmt.Errorf("the password of the mail server: %w", err)
		}
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(m.Username), mail.WithPassword(password))
	}
	return mail.NewClient(m.Host, append(options, m.Options...)...)
}

// helo is the name that the server is greeted with: the domain of the sender.
func helo(from string) string {
	_, domain, _ := strings.Cut(strings.TrimRight(from, "> "), "@")
	if domain == "" || net.ParseIP(domain) != nil {
		return "localhost"
	}
	return domain
}
