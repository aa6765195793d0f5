package premises

import (
	"errors"
	"io"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// TestStoryFails tells stories that go otherwise than their author says.
func TestStoryFails(t *testing.T) {
	revoked := a2a.NewError(errors.New("revoked"), "revoked").WithErrorInfoMeta(map[string]string{"code": "revoked"})
	for name, c := range map[string]struct {
		step  func(s *Story)
		fails bool
	}{
		"allowed":               {func(s *Story) { s.Allowed("x", "done", nil) }, false},
		"allowed, but refused":  {func(s *Story) { s.Allowed("x", "", revoked) }, true},
		"allowed, but failed":   {func(s *Story) { s.Allowed("x", "", io.EOF) }, true},
		"refused":               {func(s *Story) { s.Refused("x", "revoked", revoked) }, false},
		"refused, but allowed":  {func(s *Story) { s.Refused("x", "revoked", nil) }, true},
		"refused, but not so":   {func(s *Story) { s.Refused("x", "expired", revoked) }, true},
		"refused, but failed":   {func(s *Story) { s.Refused("x", "revoked", io.EOF) }, true},
		"something else failed": {func(s *Story) { s.Fail("x") }, true},
	} {
		s := NewStory(io.Discard)
		c.step(s)
		if got := s.Err(); (got != nil) != c.fails {
			t.Errorf("%s: %v", name, got)
		}
	}
}
