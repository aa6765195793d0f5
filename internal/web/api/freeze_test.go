package api

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/people"
)

// TestATK103_OperatorsDoNotFreezeThemselves: where the shared token is off, the last one who can
// thaw would lock out everybody. The pages and powerbox person refuse that for people, too.
func TestATK103_OperatorsDoNotFreezeThemselves(t *testing.T) {
	for target, frozen := range map[string]bool{"user:carol": false, "user:dave": true} {
		var got string
		a := &Admin{}
		stop := a.stop(false, func(_ context.Context, _, target, _ string) (issuer.Revocation, error) {
			got = target
			return issuer.Revocation{Target: target}, nil
		})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/freezes", strings.NewReader(`{"target":"`+target+`","reason":"test"}`))
		r.Header.Set("Content-Type", "application/json")
		_, err := stop(called(r, caller{name: "user:carol", rights: people.AllRights(), needs: people.Stop}))
		var s status
		if (got == target) != frozen || (err == nil) != frozen || !frozen && (!errors.As(err, &s) || s.code != http.StatusBadRequest) {
			t.Errorf("ATK-103 carol freezes %s: %q, %v", target, got, err)
		}
	}
}
