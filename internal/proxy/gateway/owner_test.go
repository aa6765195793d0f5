package gateway

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// taken is what remembers owners where someone else was faster.
type taken struct{ first Owner }

func (taken) Owner(context.Context, string, string, string) (o Owner, known bool, err error) { return }

func (taken) End(context.Context, string, string, string) error { return nil }

func (o taken) Bind(context.Context, string, string, string, Owner) (Owner, error) {
	return o.first, nil
}

// Two callers claim one context at a time: it is whose claim came first.
func TestATK18_OneContextHasOneOwner(t *testing.T) {
	mine := Owner{Root: "r", Principal: "pw_a", Holder: "key-a"}
	for name, c := range map[string]struct {
		first Owner
		want  bool
	}{
		"the caller":    {mine, true},
		"somebody else": {Owner{Root: "r", Principal: "pw_b", Holder: "key-b"}, false},
	} {
		g := &Gateway{config: Config{Tasks: taken{c.first}}}
		from := &received{agent: &agent{Agent: Agent{ID: "documents"}}, request: httptest.NewRequest("POST", "/", nil)}
		x := &decided{
			decoded: &decoded{identified: &identified{received: from}, call: a2a.Call{Context: "theirs"}}, attempted: attempted{claims: true},
			verdict: gate.Verdict{Held: gate.Held{Root: "r", Principal: "pw_a", Holder: "key-a"}},
		}
		if owned, err := g.claim(x); err != nil || owned != c.want {
			t.Errorf("ATK-18 first was %s: %t %v", name, owned, err)
		}
	}
}
