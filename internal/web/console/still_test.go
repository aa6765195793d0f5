package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/people"
)

// TestATK102_APageThatLastsEndsWithTheRights: the live page of an operator whose role is now at
// one agent shows no further records.
func TestATK102_APageThatLastsEndsWithTheRights(t *testing.T) {
	var changed atomic.Bool
	parts := 0
	k, cookie := consoleBefore(t, "http://localhost:8700", time.Minute, func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			if _, err := w.Write([]byte("part\n")); err != nil {
				return
			}
			parts++
			changed.Store(true)
		}
	})
	k.config.Rights = func(provider.Person) people.Rights {
		if changed.Load() {
			return people.RightsOf([]people.Given{{Role: "viewer", Who: []string{"user:carol"}, Agents: []string{"mail"}}}, "user:carol", nil)
		}
		return people.AllRights()
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost:8700/admin/live/events", nil)
	r.AddCookie(cookie)
	w := httptest.NewRecorder()
	k.ServeHTTP(w, r)
	if parts != 1 || strings.Count(w.Body.String(), "part") != 1 {
		t.Errorf("ATK-102: %d parts, %s; want one", parts, w.Body)
	}
}
