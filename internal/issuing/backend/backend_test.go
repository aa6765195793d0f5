package backend_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/backend"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

var execution = provider.Execution{Capability: &provider.Capability{Name: "balance"}, Arguments: powerbox.Object(), Decision: "rec_1"}

// services are behind one address, which answers as do says.
func services(t *testing.T, do http.HandlerFunc) backend.HTTP {
	t.Helper()
	s := httptest.NewServer(do)
	t.Cleanup(s.Close)
	return backend.HTTP{
		Client: s.Client(), URLs: map[string]string{"balance": s.URL + "/run"}, Limit: 1 << 10, Time: time.Minute,
		Context: func(_ provider.Execution, body []byte) (string, error) {
			return fmt.Sprintf("signed %d", len(body)), nil
		},
	}
}

// TestAAPE2_AnswersOfServices: exactly one of the shapes, and what a service says
// of authority is not said by us.
func TestAAPE2_AnswersOfServices(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   func(r provider.Result, err error) bool
	}{
		"data": {200, `{"data":{"a":1}}`, func(r provider.Result, err error) bool {
			return err == nil && r.HasData && string(r.Data.AppendJSON(nil)) == `{"a":1}`
		}},
		"anything": {200, `[1]`, func(r provider.Result, err error) bool {
			return err == nil && r.HasData && string(r.Data.AppendJSON(nil)) == `[1]`
		}},
		"no JSON":   {200, `<html>`, func(_ provider.Result, err error) bool { return err != nil }},
		"key twice": {200, `{"a":1,"a":2}`, func(_ provider.Result, err error) bool { return err != nil }},
		"too large": {200, `1` + strings.Repeat(" ", 1<<10), func(_ provider.Result, err error) bool { return err != nil }},
		"a job": {202, `{"status":"pending","status_url":"HERE/jobs/1"}`, func(r provider.Result, err error) bool {
			return err == nil && strings.HasSuffix(r.Job, "/jobs/1") && !r.HasData
		}},
		"a job beyond": {202, `{"status":"pending","status_url":"http://other.example/jobs/1"}`, func(_ provider.Result, err error) bool { return err != nil }},
		"its own no": {403, `{"error":"capability_not_granted","message":"m"}`, func(r provider.Result, err error) bool {
			return err == nil && r.Failed != nil && r.Failed.Code == agentauth.CodeInvalidRequest
		}},
		"a limit": {429, `{"error":"limit_exceeded","message":"m"}`, func(r provider.Result, err error) bool { return err == nil && r.Failed.Code == agentauth.CodeLimit }},
		"broken":  {500, `oops`, func(r provider.Result, err error) bool { return err == nil && r.Failed.Code == agentauth.CodeInternal }},
	} {
		h := services(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Powerbox-Context") == "" || r.Header.Get("Authorization") != "" {
				t.Errorf("%s: headers %v", name, r.Header)
			}
			w.WriteHeader(c.status)
			fmt.Fprint(w, strings.ReplaceAll(c.body, "HERE", "http://"+r.Host))
		})
		if r, err := h.Execute(t.Context(), execution); !c.want(r, err) {
			t.Errorf("AAP-E2, AAP-E3 %s: %+v %v", name, r, err)
		}
	}
	h := services(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) })
	for _, url := range []string{"https://other.example/1", "http://u:p@" + strings.TrimPrefix(h.URLs["balance"], "http://"), "ftp" + strings.TrimPrefix(h.URLs["balance"], "http"), "::"} {
		if _, err := h.Poll(t.Context(), execution, url); err == nil {
			t.Errorf("AAP-E3: %s is polled", url)
		}
	}
	nobody := execution
	nobody.Capability = &provider.Capability{Name: "other"}
	if _, err := h.Execute(t.Context(), nobody); err == nil {
		t.Error("a capability without an address")
	}
}

// TestATK33_EventsOfServices are written anew: nothing in one begins another.
func TestATK33_EventsOfServices(t *testing.T) {
	h := services(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: strange\ndata: a\r\ndata: b\n\nevent: error\ndata: {\"x\":1}\n\n: comment\n\nevent: done\n\n")
	})
	r, err := h.Execute(t.Context(), execution)
	if err != nil || r.Stream == nil {
		t.Fatal(err)
	}
	defer r.Stream.Close()
	var got []string
	for {
		name, data, err := r.Stream.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, name+" "+string(data))
	}
	if want := `data "a\nb"|error {"x":1}|done `; strings.Join(got, "|") != want {
		t.Errorf("ATK-33: %q; want %q", strings.Join(got, "|"), want)
	}
	h = services(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 100 {
			fmt.Fprint(w, "data: "+strings.Repeat("x", 100)+"\n")
		}
	})
	if r, err = h.Execute(t.Context(), execution); err != nil {
		t.Fatal(err)
	}
	defer r.Stream.Close()
	if _, _, err := r.Stream.Next(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("ATK-55: an event without end: %v", err)
	}
}
