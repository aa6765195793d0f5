package backend_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/backend"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// told is what a stream tells, and the error that it ends with.
func told(t *testing.T, r provider.Result, err error) (string, error) {
	t.Helper()
	if err != nil || r.Stream == nil {
		t.Fatalf("%+v %v; want a stream", r, err)
	}
	defer func() { _ = r.Stream.Close() }() // it was read
	var all []string
	for {
		name, data, err := r.Stream.Next()
		if err != nil {
			return strings.Join(all, "|"), err
		}
		all = append(all, name+" "+string(data))
	}
}

// TestAAPE5_TasksThatBreakOff: a stream is at its end where its task is. One that ends
// before is none that was done; an event without data says nothing.
func TestAAPE5_TasksThatBreakOff(t *testing.T) {
	const (
		working   = `data: {"result":{"statusUpdate":{"status":{"state":"TASK_STATE_WORKING","message":{"parts":[{"text":"reading"}]}}}}}` + "\n\n"
		made      = `data: {"result":{"artifactUpdate":{"artifact":{"parts":[{"text":"one"}]}}}}` + "\n\n"
		completed = `data: {"result":{"statusUpdate":{"status":{"state":"TASK_STATE_COMPLETED"}}}}` + "\n\n"
	)
	for _, c := range []struct{ sent, want string }{
		{working + made + completed, `data "reading"|data "one"`},
		{"data:\n\n" + made + ": \n\ndata\n\n" + completed, `data "one"`},
		{working + made, `data "reading"|data "one" and no end`},
		{"", ` and no end`},
		{`data: {"result":`, ` and no end`},
	} {
		sent, want := c.sent, c.want
		h := services(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, sent)
		})
		r, err := backend.A2A{HTTP: h, URL: h.URLs["balance"], Skill: "balance", Version: a2a.Version1, Streams: true}.Execute(t.Context(), execution)
		got, err := told(t, r, err)
		if !errors.Is(err, io.EOF) {
			got += " and no end"
		}
		if got != want {
			t.Errorf("AAP-E5 %q: %s (%v); want %s", sent, got, err, want)
		}
	}
}

// TestATK55_AnswersOfTools: what an MCP server answers with has a limit, also where it
// may stream and does not.
func TestATK55_AnswersOfTools(t *testing.T) {
	for size, fits := range map[int]bool{100: true, 2 << 10: false} {
		h := services(t, func(w http.ResponseWriter, r *http.Request) {
			var asked struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
			}
			if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&asked) != nil || asked.ID == nil {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			result := `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
			if asked.Method == "tools/call" {
				result = `{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}`
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, asked.ID, result)
		})
		r, err := backend.MCP{HTTP: h, URL: h.URLs["balance"], Tool: "balance", Streams: true}.Execute(t.Context(), execution)
		got, err := told(t, r, err)
		if all := errors.Is(err, io.EOF) && strings.Contains(got, strings.Repeat("x", size)); all != fits {
			t.Errorf("ATK-55 an answer of %d bytes where %d are allowed: %.200s %v", size, h.Limit, got, err)
		}
	}
}

// TestATK24_AToolIsGivenUp: a stream that is closed tells the server that its call is given
// up, whatever becomes of the request that it was for.
func TestATK24_AToolIsGivenUp(t *testing.T) {
	called, givenUp := make(chan struct{}), make(chan struct{})
	h := services(t, func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		known := r.Method == http.MethodPost && json.NewDecoder(r.Body).Decode(&asked) == nil
		switch {
		case known && asked.Method == "notifications/cancelled":
			close(givenUp)
			w.WriteHeader(http.StatusAccepted)
		case !known || asked.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		case asked.Method == "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			close(called)
			<-r.Context().Done()
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`, asked.ID)
		}
	})
	r, err := backend.MCP{HTTP: h, URL: h.URLs["balance"], Tool: "balance", Streams: true}.Execute(t.Context(), execution)
	if err != nil || r.Stream == nil {
		t.Fatalf("ATK-24: %v, %v", r, err)
	}
	<-called
	if err := r.Stream.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-givenUp:
	case <-time.After(20 * time.Second):
		t.Error("ATK-24: the server is not told that the call is given up")
	}
}
