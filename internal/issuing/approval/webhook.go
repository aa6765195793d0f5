package approval

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// Template is the form of what a webhook is told.
type Template string

// The templates. Chat is a text as chat servers take it; mail has recipients, a
// subject and a text for a service that sends mail; JSON has everything.
const (
	TemplateJSON Template = "json"
	TemplateChat Template = "chat"
	TemplateMail Template = "mail"
	// Slack and Teams are for incoming webhooks of these, whose URL is the secret.
	TemplateSlack Template = "slack"
	TemplateTeams Template = "teams"
)

// Webhook is a URL that is told of questions, signed as in Standard Webhooks.
type Webhook struct {
	Name     string
	URL      string
	Secret   []byte // of the signatures, 16 bytes at least; none where the URL is the secret
	Template Template
	Events   []Event // none stands for all
	Client   *http.Client
	// Mail sends the messages in place of the URL. Optional.
	Mail *Mail
}

// Says words a question in one sentence, as its page does, without arguments and resources.
type Says func(q Question, now time.Time) string

// The bounds of telling.
const (
	tellTime = 10 * time.Second
	// tellClaim is how long a message belongs to one sender while it is sent.
	tellClaim = 3 * tellTime
	// tellEvery is how often due messages are looked for.
	tellEvery = time.Second
	// maxWaiting is how many messages may wait for one webhook, and maxLook how many
	// are looked at in one go.
	maxWaiting = 10_000
	maxLook    = 1024
	// toldTime is how long messages without a deadline are tried.
	toldTime = 24 * time.Hour
	// keptDead is how long undelivered messages are kept.
	keptDead = 7 * 24 * time.Hour
)

// tellAgain is how long it takes until the next try; after the last it stays so.
var tellAgain = []time.Duration{time.Second, 5 * time.Second, 25 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour}

// Webhooks tells webhooks about the messages in the store, until they
// accept them or the messages are not needed any more.
type Webhooks struct {
	hooks []Webhook
	says  Says
	now   func() time.Time
	log   *slog.Logger

	mu   sync.Mutex
	busy map[string]bool // webhooks that are being told
}

// NewWebhooks returns a [Teller], which tells nothing before Run. Says is optional.
func NewWebhooks(hooks []Webhook, says Says, now func() time.Time, log *slog.Logger) (*Webhooks, error) {
	if says == nil {
		says = plainly
	}
	for _, h := range hooks {
		own := h.Template == TemplateSlack || h.Template == TemplateTeams
		if h.Mail == nil && (h.URL == "" || h.Client == nil || len(h.Secret) < 16 && !own) {
			return nil, fmt.Errorf("approval: webhook %q needs a URL, a client and a secret of 16 bytes at least", h.Name)
		}
	}
	return &Webhooks{hooks: hooks, says: says, now: now, log: log, busy: map[string]bool{}}, nil
}

// Messages implements [Teller].
func (w *Webhooks) Messages(n News) ([]Message, error) {
	now := w.now()
	expires := now.Add(toldTime)
	if n.Event == EventAsked || n.Event == EventOverdue {
		expires = n.Question.Expires
	}
	var out []Message
	for _, h := range w.hooks {
		if len(h.Events) > 0 && !slices.Contains(h.Events, n.Event) {
			continue
		}
		body, err := h.message(n, w.says(n.Question, now))
		if err != nil {
			return nil, err
		}
		out = append(out, Message{ID: messageID(n.Event, n.Question.ID, h.Name), Hook: h.Name, Event: n.Event, Question: n.Question.ID, Body: body, Created: now, Due: now, Expires: expires})
	}
	return out, nil
}

// Names implements [Teller].
func (w *Webhooks) Names() []string {
	var out []string
	for _, h := range w.hooks {
		out = append(out, h.Name)
	}
	return out
}

func messageID(e Event, question, hook string) string { return string(e) + "_" + question + "." + hook }

// Run tells until ctx ends. Each webhook is told one thing after the other, and
// none waits for another.
func (w *Webhooks) Run(ctx context.Context, store Store, changed func() <-chan struct{}) {
	var all sync.WaitGroup
	defer all.Wait()
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		again := changed()
		if err := w.look(ctx, store, &all); err != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "what webhooks are to be told cannot be looked for", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-tick.C:
		}
	}
}

// look begins to send due messages.
func (w *Webhooks) look(ctx context.Context, store Store, all *sync.WaitGroup) error {
	var due []Message
	err := store.ViewApprovals(ctx, func(r Reader) error {
		var err error
		due, err = r.DueMessages(w.now(), maxLook)
		return err
	})
	by := map[string][]Message{}
	for _, m := range due {
		by[m.Hook] = append(by[m.Hook], m)
	}
	for name, messages := range by {
		if !w.begin(name) {
			continue
		}
		all.Go(func() {
			defer w.end(name)
			for _, m := range messages {
				if ctx.Err() != nil || !w.deliver(ctx, store, m) {
					return
				}
			}
		})
	}
	return err
}

func (w *Webhooks) begin(hook string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy[hook] {
		return false
	}
	w.busy[hook] = true
	return true
}

func (w *Webhooks) end(hook string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.busy, hook)
}

// errNoHook says that a webhook is not configured any more.
var errNoHook = errors.New("the webhook is not configured any more")

// deliver sends one message once, and notes what became of it. It reports whether
// the webhook takes messages now.
func (w *Webhooks) deliver(ctx context.Context, store Store, m Message) bool {
	// Another server may tell the same webhook, and this one may end: a message that is being
	// sent is due again after a while.
	taken := false
	err := store.UpdateApprovals(ctx, func(tx Tx) error {
		now, err := tx.Message(m.ID)
		if taken = err == nil && now.Died.IsZero() && !now.Due.After(w.now()); !taken {
			return errIgnored(err)
		}
		now.Due = w.now().Add(tellClaim)
		m = now
		return tx.PutMessage(now)
	})
	if err != nil || !taken {
		return err == nil
	}
	err = errNoHook
	if i := slices.IndexFunc(w.hooks, func(h Webhook) bool { return h.Name == m.Hook }); i >= 0 {
		err = w.hooks[i].send(ctx, m, w.now())
	}
	if ctx.Err() != nil && err != nil {
		return false // this server ends: it is due again
	}
	told := err == nil
	err = store.UpdateApprovals(context.WithoutCancel(ctx), func(tx Tx) error {
		if told {
			return tx.DeleteMessage(m.ID)
		}
		if _, gone := tx.Message(m.ID); gone != nil {
			return errIgnored(gone) // its question is over, and the message is not needed
		}
		return tx.PutMessage(w.failed(m, err))
	})
	if err != nil {
		w.log.ErrorContext(ctx, "what became of a message to a webhook is not noted", slog.String("message", m.ID), slog.Any("error", err))
	}
	return told
}

// errIgnored is nil for a missing row.
func errIgnored(err error) error {
	if notFound(err) {
		return nil
	}
	return err
}

// failed is a message after a try that failed: due again, or given up.
func (w *Webhooks) failed(m Message, why error) Message {
	now := w.now()
	wait := tellAgain[min(m.Tries, len(tellAgain)-1)]
	m.Tries, m.Why, m.Due = m.Tries+1, why.Error(), now.Add(wait)
	var gone *goneError
	if m.Due.After(m.Expires) || errors.Is(why, errNoHook) || errors.As(why, &gone) {
		m.Died = now
		w.log.Error("a webhook could not be told of a question", slog.String("webhook", m.Hook), slog.String("message", m.ID), slog.Int("tries", m.Tries), slog.Any("error", why))
	}
	return m
}

// goneError says that a webhook wants no messages any more (HTTP status 410).
type goneError struct{ error }

// message gives news the form that the webhook has.
func (h Webhook) message(n News, says string) ([]byte, error) {
	if h.Mail != nil {
		return letterOf(n, word(n, says), h.Name)
	}
	return h.Template.message(n, says)
}

func (h Webhook) send(ctx context.Context, one Message, now time.Time) error {
	if h.Mail != nil {
		return h.Mail.Send(ctx, one, now)
	}
	return h.post(ctx, one, now)
}

// unnamed drops the URL that net/http puts around its errors: it may be a secret.
func unnamed(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// post sends a message with its signature over id, time and body.
func (h Webhook) post(ctx context.Context, one Message, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(one.Body))
	if err != nil {
		return unnamed(err)
	}
	at := strconv.FormatInt(now.Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Webhook-Id", one.ID)
	r.Header.Set("Webhook-Timestamp", at)
	if len(h.Secret) > 0 {
		mac := hmac.New(sha256.New, h.Secret)
		fmt.Fprintf(mac, "%s.%s.", one.ID, at)
		mac.Write(one.Body)
		r.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	response, err := h.Client.Do(r)
	if err != nil {
		return unnamed(err)
	}
	defer func() { _ = response.Body.Close() }() // nothing of it is used
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
	switch {
	case response.StatusCode == http.StatusGone:
		return &goneError{errors.New("the webhook answered with HTTP status 410: it wants no messages any more")}
	case response.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("the webhook answered with HTTP status %d", response.StatusCode)
	}
	return nil
}

// message gives news the form of the template.
func (t Template) message(n News, says string) ([]byte, error) {
	words := word(n, says)
	switch t {
	case TemplateSlack:
		return words.slack()
	case TemplateTeams:
		return words.teams()
	case TemplateChat:
		return json.Marshal(map[string]string{"text": words.text()})
	case TemplateMail:
		return json.Marshal(map[string]any{"to": n.Question.asked(), "subject": words.Subject, "text": words.text()})
	case TemplateJSON:
	}
	return n.all()
}

// all is everything about a question but its arguments, which are for the page, behind a
// login.
func (n News) all() ([]byte, error) {
	q := n.Question
	var asks []string
	for _, m := range q.Matters {
		for _, op := range m.Operations {
			asks = append(asks, m.Grant+"/"+op.Name)
		}
	}
	queue := "confirmation"
	if q.review() {
		queue = "review"
	}
	return json.Marshal(map[string]any{
		"event": n.Event, "id": q.ID, "kind": q.Kind, "queue": queue, "status": q.State, "agent": q.Agent, "asked_by": q.Requester, "holder": q.Holder, "for": q.Principal,
		"asks": asks, "to": q.asked(), "in_its_own_words": harmless(q.Purpose), "url": n.URL, "expires_at": q.Expires.UTC().Format(time.RFC3339),
	})
}

// withdrawn is why a question is over whose call was cancelled.
const withdrawn = "withdrawn by the caller who asked"

// ended says how a question ended.
func (q Question) ended() string {
	switch {
	case q.State == issuer.StateExpired:
		return "No person answered it in time."
	case q.Reason == withdrawn:
		return "It was withdrawn."
	}
	return "It was " + string(q.State) + "."
}

var subjects = map[Event]string{
	EventAsked: "An agent waits for your approval", EventOverdue: "An agent still waits, and you may answer", EventAnswered: "A request is over", EventAlert: "An agent asks too often",
}

// asked are those who are asked: principals, and groups as group:NAME.
func (q Question) asked() []string {
	var out []string
	for _, n := range q.Needs {
		if n.Self && q.Principal != "" {
			out = append(out, q.Principal)
		}
		out = append(out, n.Who...)
		for _, g := range n.Groups {
			out = append(out, "group:"+g)
		}
		if slices.Contains(q.Told, string(EventOverdue)) || n.After == 0 {
			out = append(out, n.Delegates...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// harmless takes out of an agent's words what chat servers and mail readers make
// links, mentions or layout of (ATK-49).
func harmless(s string) string {
	s = strings.ReplaceAll(s, "://", " ")
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("<>&@*_~`[]()|#\"\\", r) {
			return -1
		}
		return r
	}, s)
}
