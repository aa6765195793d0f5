package approval

import (
	"bytes"
	"cmp"
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
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Template is the form of what a webhook is told.
type Template string

// The templates. Chat is a text as chat servers take it; mail has recipients, a
// subject and a text for a service that sends mail; JSON has everything.
const (
	TemplateJSON Template = "json"
	TemplateChat Template = "chat"
	TemplateMail Template = "mail"
)

// Webhook is a URL that is told of questions, signed as Standard Webhooks have it.
type Webhook struct {
	Name     string
	URL      string
	Secret   []byte // of the signatures, 16 bytes at least
	Template Template
	Events   []Event // none stands for all
	Client   *http.Client
}

// The bounds of telling: what waits for one webhook, and how often it is tried.
const (
	maxTold  = 1024
	tellTime = 10 * time.Second
)

var tellAgain = []time.Duration{time.Second, 5 * time.Second, 25 * time.Second}

// Webhooks tells webhooks. What cannot be told after some tries, or while too much
// waits, is logged and lost: the pages say what is open.
type Webhooks struct {
	hooks  []Webhook
	queues []chan told
	now    func() time.Time
	log    *slog.Logger
}

// told is one message to a webhook.
type told struct {
	id   string
	body []byte
}

// NewWebhooks returns a [Teller], which tells nothing before Run.
func NewWebhooks(hooks []Webhook, now func() time.Time, log *slog.Logger) (*Webhooks, error) {
	w := &Webhooks{hooks: hooks, now: now, log: log}
	for _, h := range hooks {
		if h.URL == "" || h.Client == nil || len(h.Secret) < 16 {
			return nil, fmt.Errorf("approval: webhook %q needs a URL, a client and a secret of 16 bytes at least", h.Name)
		}
		w.queues = append(w.queues, make(chan told, maxTold))
	}
	return w, nil
}

// Tell implements [Teller].
func (w *Webhooks) Tell(n News) {
	for i, h := range w.hooks {
		if len(h.Events) > 0 && !slices.Contains(h.Events, n.Event) {
			continue
		}
		body, err := h.Template.message(n)
		if err == nil {
			select {
			case w.queues[i] <- told{string(n.Event) + "_" + n.Question.ID, body}:
				continue
			default:
				err = errors.New("too much waits for it")
			}
		}
		w.log.Error("a webhook is not told of a question", slog.String("webhook", h.Name), slog.String("question", n.Question.ID), slog.Any("error", err))
	}
}

// Run tells until ctx ends.
func (w *Webhooks) Run(ctx context.Context) {
	var all sync.WaitGroup
	for i, h := range w.hooks {
		all.Add(1)
		go func() {
			defer all.Done()
			for {
				select {
				case <-ctx.Done():
					return
				case one := <-w.queues[i]:
					w.deliver(ctx, h, one)
				}
			}
		}()
	}
	all.Wait()
}

// deliver sends one message, some times where it must.
func (w *Webhooks) deliver(ctx context.Context, h Webhook, one told) {
	for n := 0; ; n++ {
		err := h.post(ctx, one, w.now())
		if err == nil || ctx.Err() != nil {
			return
		}
		if n == len(tellAgain) {
			w.log.ErrorContext(ctx, "a webhook could not be told of a question", slog.String("webhook", h.Name), slog.String("message", one.id), slog.Any("error", err))
			return
		}
		timer := time.NewTimer(tellAgain[n])
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// post sends a message with its signature over id, time and body.
func (h Webhook) post(ctx context.Context, one told, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(one.body))
	if err != nil {
		return err
	}
	at := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, h.Secret)
	fmt.Fprintf(mac, "%s.%s.", one.id, at)
	mac.Write(one.body)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Webhook-Id", one.id)
	r.Header.Set("Webhook-Timestamp", at)
	r.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	response, err := h.Client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // nothing of it is used
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("the webhook answered with HTTP status %d", response.StatusCode)
	}
	return nil
}

// message words news. Arguments are not in it: they are for the page, behind a
// login.
func (t Template) message(n News) ([]byte, error) {
	q := n.Question
	by := cmp.Or(q.Requester, q.Holder)
	var asks []string
	for _, m := range q.Matters {
		for _, op := range m.Operations {
			asks = append(asks, m.Grant+"/"+op.Name)
		}
	}
	subject := subjects[n.Event]
	text := fmt.Sprintf("%s: %s asks for %s at %s", subject, by, strings.Join(asks, ", "), q.Agent)
	if q.Principal != "" {
		text += ", for " + q.Principal
	}
	if q.Purpose != "" {
		text += ". In its own words: \"" + harmless(q.Purpose) + "\""
	}
	text += "."
	switch n.Event {
	case EventAnswered:
		text += " It was " + string(q.State) + "."
	case EventAlert:
		text += " People have refused it again and again: it may be hijacked."
	case EventAsked, EventOverdue:
		text += fmt.Sprintf(" Look at it until %s: %s", q.Expires.UTC().Format("2 Jan 15:04 MST"), n.URL)
	}
	switch t {
	case TemplateChat:
		return json.Marshal(map[string]string{"text": text})
	case TemplateMail:
		return json.Marshal(map[string]any{"to": q.asked(), "subject": subject, "text": text})
	case TemplateJSON:
	}
	queue := "confirmation"
	if q.Review() {
		queue = "review"
	}
	return json.Marshal(map[string]any{
		"event": n.Event, "id": q.ID, "kind": q.Kind, "queue": queue, "status": q.State, "agent": q.Agent, "asked_by": q.Requester, "holder": q.Holder, "for": q.Principal,
		"asks": asks, "to": q.asked(), "in_its_own_words": harmless(q.Purpose), "url": n.URL, "expires_at": q.Expires.UTC().Format(time.RFC3339),
	})
}

var subjects = map[Event]string{
	EventAsked: "An agent waits for your approval", EventOverdue: "An agent still waits, and you may answer", EventAnswered: "A request was answered", EventAlert: "An agent asks too often",
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
