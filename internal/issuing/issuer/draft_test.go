package issuer_test

import (
	"testing"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

// TestTokensAreOfTheConfiguredDraft: the issuer mints in the draft that is configured. What
// a token of that draft, or a strict one, cannot say is issued by reference.
func TestTokensAreOfTheConfiguredDraft(t *testing.T) {
	path := powerbox.Field{Name: "folder", Constraint: powerbox.PathUnder{Root: "/reports"}, Required: true}
	named := powerbox.Field{Name: "folder", Constraint: powerbox.ExactValue{Value: powerbox.String("reports")}}
	for _, c := range []struct {
		name   string
		rest   powerbox.Rest
		field  powerbox.Field
		draft  token.Draft
		strict bool
		minted bool
	}{
		{"a path", powerbox.RestNone, path, token.Draft02, false, true},
		{"a path, strictly", powerbox.RestNone, path, token.Draft02, true, false},
		{"a path in -01", powerbox.RestNone, path, token.Draft01, false, true},
		{"an optional argument", powerbox.RestNone, named, token.Draft02, true, true},
		{"an optional argument in -01", powerbox.RestNone, named, token.Draft01, false, false},
		{"an optional argument beside any", powerbox.RestAny, named, token.Draft02, true, true},
	} {
		w := newTown(t)
		shape, err := powerbox.NewShape(c.rest, c.field)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range w.agent.Skills {
			if s.Skill == "search_documents" {
				w.agent.Skills[i].Shape = shape
			}
		}
		w.config.Draft, w.config.Strict = c.draft, c.strict
		w.restart()
		got := w.read(caller(t, "user:alice"))
		if (got.Token != "") != c.minted {
			t.Errorf("%s: a token: %t, want %t", c.name, got.Token != "", c.minted)
		}
		if got.Token == "" {
			continue
		}
		if u, err := token.ParseChain([]string{got.Token}); err != nil || u.Draft() != c.draft {
			t.Errorf("%s: draft %s, %v; want %s", c.name, u.Draft(), err, c.draft)
		}
	}
}
