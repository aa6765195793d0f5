package storetest

import (
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// AKeyIsAsOldAsItIs says that the key that was recorded last is the agent's, and one
// that comes back keeps its age (EXT-34).
func AKeyIsAsOldAsItIs(t *testing.T, place Place) {
	s := newFixture(t, place).open(t)
	for n, c := range []struct {
		agent, key, want string
		since            int
	}{{"mail", "a", "a", 0}, {"mail", "b", "b", 1}, {"documents", "a", "a", 2}, {"mail", "a", "a", 0}, {"mail", "b", "b", 1}} {
		var key string
		var renewed time.Time
		err := s.Update(t.Context(), func(tx issuer.Tx) error {
			if err := tx.PutAgentKey(c.agent, c.key, noon.Add(time.Duration(n)*time.Hour)); err != nil {
				return err
			}
			var err error
			key, renewed, err = tx.AgentKey(c.agent)
			return err
		})
		if err != nil || key != c.want || !renewed.Equal(noon.Add(time.Duration(c.since)*time.Hour)) {
			t.Errorf("EXT-34 step %d: key %q since %s: %v", n, key, renewed, err)
		}
	}
	if err := s.View(t.Context(), func(r issuer.Reader) error {
		if all, err := r.NewestKeys(); err != nil || len(all) != 2 || all["mail"] != "b" || all["documents"] != "a" {
			t.Errorf("newest keys: %v %v", all, err)
		}
		if key, renewed, err := r.AgentKey("nobody"); key != "" || !renewed.IsZero() || err != nil {
			t.Errorf("of nobody: %q %s %v", key, renewed, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
