package operate

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestOnlyTheAnswerOfThisLoginCounts sends the browser back with answers of other logins, of
// another issuer, and twice.
func TestOnlyTheAnswerOfThisLoginCounts(t *testing.T) {
	came := make(chan callback, 1)
	h := backFromBrowser("mine", "https://login.example", came)
	send := func(query string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/callback?"+query, http.NoBody))
		return w.Code
	}
	for _, query := range []string{"code=x", "code=x&state=", "code=x&state=theirs", "error=access_denied&state=theirs"} {
		if code := send(query); code != http.StatusBadRequest || len(came) != 0 {
			t.Errorf("%s: HTTP %d", query, code)
		}
	}
	if code := send("code=x&state=mine&iss=https://login.example"); code != http.StatusOK {
		t.Errorf("the answer: HTTP %d", code)
	}
	if code := send("code=y&state=mine"); code != http.StatusBadRequest {
		t.Errorf("twice: HTTP %d", code)
	}
	if back := <-came; back.code != "x" || back.err != nil {
		t.Errorf("%+v", back)
	}
	for _, query := range []string{"code=x&state=mine&iss=https://other.example", "error=access_denied&state=mine", "state=mine"} {
		send(query)
		if back := <-came; back.err == nil || back.code != "" {
			t.Errorf("%s: %+v", query, back)
		}
	}
}
