package api

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
)

func TestATK86_AStoreThatDoesNotAnswerIsNoFaultOfTheServer(t *testing.T) {
	w := httptest.NewRecorder()
	reply(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/agents", nil), slog.New(slog.DiscardHandler), nil, fmt.Errorf("store: %w", evidence.ErrUnavailable))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("ATK-86 %d %v %s; want 503 with Retry-After", w.Code, w.Header(), w.Body)
	}
}
