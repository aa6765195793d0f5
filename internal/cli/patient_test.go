package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestALongAnswerIsReadToItsEnd: the limit of a client for a whole answer does not end one that
// still comes, and an answer that stops coming ends.
func TestALongAnswerIsReadToItsEnd(t *testing.T) {
	begun, silent := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/silent" {
			<-silent
		}
		_, _ = io.WriteString(w, "one ") // the client reads on
		_ = http.NewResponseController(w).Flush()
		<-begun
		_, _ = io.WriteString(w, "two")
	}))
	defer server.Close()
	defer close(silent)
	get := func(p patient, path string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		return p.do(r)
	}
	long := patientAs(&http.Client{Timeout: time.Nanosecond}, time.Hour)
	response, err := get(long, "/")
	if err != nil {
		t.Fatalf("the limit of a whole answer counts: %v", err)
	}
	first := make([]byte, 4)
	if _, err := io.ReadFull(response.Body, first); err != nil {
		t.Fatal(err)
	}
	response.Body.(*pieces).p.most = time.Millisecond //nolint:forcetypeassert // nothing more comes
	if rest, err := io.ReadAll(response.Body); err == nil || !strings.Contains(err.Error(), "it sent nothing") {
		t.Errorf("the rest of an answer that does not come: %q, %v; want that it sent nothing", rest, err)
	}
	close(begun)
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
	if response, err = get(long, "/"); err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(response.Body); err != nil || string(all) != "one two" {
		t.Errorf("a whole answer: %q, %v", all, err)
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
	if response, err := get(patientAs(http.DefaultClient, time.Millisecond), "/silent"); err == nil || !strings.Contains(err.Error(), "it sent nothing for 1ms") {
		if err == nil {
			_ = response.Body.Close()
		}
		t.Errorf("a server that does not answer: %v; want that it sent nothing", err)
	}
}
