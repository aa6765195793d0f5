package sources_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/sources"
)

// now is the clock, which in synctest is that of the bubble.
var now = time.Now //nolint:forbidigo // tests of time run in synctest

// wait lets time pass in synctest.
func wait(d time.Duration) { <-time.After(d) }

// reports is the collection of these tests.
func reports() catalogue.Collection {
	return catalogue.Collection{Agent: "documents", Name: "reports", Attributes: map[string]catalogue.Attribute{
		"quarter": {Type: catalogue.TypeText}, "year": {Type: catalogue.TypeInteger}, "final": {Type: catalogue.TypeBoolean}, "tags": {Type: catalogue.TypeTexts},
	}}
}

// question asks for reports that meet a filter, which is JSON.
func question(t *testing.T, principal, filter string) catalogue.Question {
	t.Helper()
	v, err := powerbox.ParseValue([]byte(`{"collection":"reports","filter":` + filter + `}`))
	if err != nil {
		t.Fatal(err)
	}
	q, err := catalogue.ParseQuery(v)
	if err != nil {
		t.Fatal(err)
	}
	return catalogue.Question{Principal: principal, Collection: reports(), Action: "viewer", Query: q}
}

// guarded is a source under the bounds of a server, with its log.
func guarded(s sources.Source, log io.Writer) *sources.Guarded {
	return sources.Guard(s, sources.Settings{
		Timeout: time.Minute, Calls: 4, Now: now, Log: slog.New(slog.NewTextHandler(log, nil)),
	})
}

// all reads all pages, and keeps what matches.
func all(t *testing.T, s issuer.Source, q catalogue.Question) []string {
	t.Helper()
	var ids []string
	for range 100 {
		p, err := s.Page(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range p.Items {
			if q.Query.Matches(item) {
				ids = append(ids, item.ID)
			}
		}
		if p.Next == "" {
			return ids
		}
		q.After = p.Next
	}
	t.Fatal("the pages do not end")
	return nil
}

// standIn is a system over HTTP that answers as the test says.
func standIn(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, body string)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		answer(w, r, string(body))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func client() *http.Client {
	return &http.Client{
		Transport:     http.DefaultTransport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// fixed is a source that returns one answer.
type fixed func(ctx context.Context, q catalogue.Question) (catalogue.Page, error)

func (f fixed) Page(ctx context.Context, q catalogue.Question) (catalogue.Page, error) {
	return f(ctx, q)
}

func ids(items []catalogue.Item) (out []string) {
	for _, i := range items {
		out = append(out, i.ID)
	}
	return out
}

// failsClosed wants no resources, the one error, and a log without secrets.
func failsClosed(t *testing.T, s sources.Source, q catalogue.Question, secret ...string) {
	t.Helper()
	var log bytes.Buffer
	p, err := guarded(s, &log).Page(t.Context(), q)
	if !errors.Is(err, issuer.ErrSource) || len(p.Items) > 0 || err.Error() != issuer.ErrSource.Error() {
		t.Errorf("got %v, %v; want no resources and %v", ids(p.Items), err, issuer.ErrSource)
	}
	if !strings.Contains(log.String(), "documents") || slices.ContainsFunc(secret, func(s string) bool { return strings.Contains(log.String(), s) }) {
		t.Errorf("the log has %s", log.String())
	}
}
