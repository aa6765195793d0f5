package issuer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// promoted is the store of another primary, whose newest events are others.
type promoted struct {
	issuer.Store
	has func([]issuer.Revocation) []issuer.Revocation
}

func (p *promoted) View(ctx context.Context, read func(issuer.Reader) error) error {
	return p.Store.View(ctx, func(r issuer.Reader) error { return read(promotedReader{r, p.has}) })
}

type promotedReader struct {
	issuer.Reader
	has func([]issuer.Revocation) []issuer.Revocation
}

func (r promotedReader) Revocations(after int64) ([]issuer.Revocation, error) {
	all, err := r.Reader.Revocations(after)
	if r.has != nil {
		all = r.has(all)
	}
	return all, err
}

// EXT-27: after a failover a node that knows an event which the store has not, or under
// whose number it has another, answers nothing more; one that knows the right entry continues.
func TestEXT27_AStoreThatWentBack(t *testing.T) {
	w := newTown(t)
	p := &promoted{Store: w.store}
	w.config.Store = p
	w.restart()
	if err := w.issuer.Anew(t.Context()); err != nil {
		t.Errorf("where nothing was ever revoked: %v", err)
	}
	w.now = w.now.Add(300 * time.Millisecond) // stored times are whole seconds
	for _, target := range []string{"one", "two"} {
		if _, err := w.issuer.RevokeAsOperator(t.Context(), "operator", issuer.Target{ID: target}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.issuer.Anew(t.Context()); err != nil {
		t.Errorf("where all is there: %v", err)
	}
	for name, has := range map[string]func([]issuer.Revocation) []issuer.Revocation{
		"the newest is lost": func([]issuer.Revocation) []issuer.Revocation { return nil },
		"it is another one": func(all []issuer.Revocation) []issuer.Revocation {
			all[len(all)-1].Target = "three"
			return all
		},
	} {
		p.has = has
		if err := w.issuer.Anew(t.Context()); !errors.Is(err, issuer.ErrWentBack) {
			t.Errorf("where %s: %v", name, err)
		}
	}
}
