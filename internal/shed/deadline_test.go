package shed

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const patience = 3 * time.Second

func tooLate(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, LateMessage(r.Method), http.StatusServiceUnavailable)
}

// timed serves one request under a deadline and returns the answer with the time it took.
func timed(t *testing.T, r *http.Request, handler http.HandlerFunc) (*httptest.ResponseRecorder, time.Duration) {
	t.Helper()
	w, begin := httptest.NewRecorder(), time.Now() //nolint:forbidigo // the clock of the bubble
	Deadline(patience, tooLate, handler).ServeHTTP(w, r)
	return w, time.Since(begin) //nolint:forbidigo // the clock of the bubble
}

func TestATK86_AHandlerThatHangsIsAnsweredInItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		ctx, left := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
		w, took := timed(t, r, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			<-time.After(time.Hour)
			if _, err := w.Write([]byte("{}")); err == nil {
				t.Error("ATK-86 a write after another answer succeeded")
			}
			ended <- r.Context().Err()
		})
		left() // as the server does after the answer
		if took != patience || w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), "may still take effect") {
			t.Errorf("ATK-86 after %v: %d %v %s", took, w.Code, w.Header(), w.Body)
		}
		if err := <-ended; err != nil {
			t.Errorf("ATK-86 the change was ended by its late answer: %v", err)
		}
		if strings.Contains(w.Body.String(), "{}") {
			t.Errorf("ATK-86 two answers: %s", w.Body)
		}
	})
}

func TestATK86_WhatProgressesIsNotCutOff(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"steps": func(w http.ResponseWriter, r *http.Request) {
			for range 5 {
				<-time.After(patience - time.Second)
				Progress(r.Context())
			}
			_, _ = io.WriteString(w, "done")
		},
		"a wait with a limit of its own": func(w http.ResponseWriter, r *http.Request) {
			resume := Pause(r.Context())
			<-time.After(time.Hour)
			resume()
			_, _ = io.WriteString(w, "done")
		},
		"a stream": func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			<-time.After(time.Hour)
			_, _ = io.WriteString(w, "done")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if w, took := timed(t, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), handler); w.Code != http.StatusOK || w.Body.String() != "done" {
					t.Errorf("ATK-86 after %v: %d %s", took, w.Code, w.Body)
				}
			})
		})
	}
}

func TestATK86_StepsThatStopAreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		w, took := timed(t, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), func(_ http.ResponseWriter, r *http.Request) {
			<-time.After(patience - time.Second)
			Progress(r.Context())
			<-release
		})
		if want := 2*patience - time.Second; took != want || w.Code != http.StatusServiceUnavailable {
			t.Errorf("ATK-86 %d after %v; want 503 after %v", w.Code, took, want)
		}
	})
}

// slowBody is a body whose sender takes its time.
type slowBody struct{ left int }

func (b *slowBody) Read(p []byte) (int, error) {
	if b.left--; b.left < 0 {
		return 0, io.EOF
	}
	<-time.After(2 * patience)
	p[0] = 'x'
	return 1, nil
}

func TestATK86_ASlowSenderIsNotTakenForASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := timed(t, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", &slowBody{left: 3}), func(w http.ResponseWriter, r *http.Request) {
			data, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			_, _ = w.Write(data)
		})
		if w.Code != http.StatusOK || w.Body.String() != "xxx" {
			t.Errorf("ATK-86 %d %s", w.Code, w.Body)
		}
	})
}

func TestAClientThatLeavesEndsItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		_, took := timed(t, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil), func(_ http.ResponseWriter, r *http.Request) {
			leave()
			<-r.Context().Done()
		})
		if took != 0 {
			t.Errorf("the request ended after %v", took)
		}
	})
}

func TestThePanicOfAHandlerReachesTheServer(t *testing.T) {
	defer func() {
		if recover() != http.ErrAbortHandler { //nolint:errorlint // as the server compares it
			t.Error("the server does not see the panic")
		}
	}()
	timed(t, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
}
