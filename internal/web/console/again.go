package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// typed is what a page with a form keeps of an answer that was refused.
type typed struct {
	Seen    string // the digest of the page
	Problem string // why the answer was refused, "" for a page that was just opened
	form    url.Values
}

// again keeps what the person chose, if it was chosen on this very page: a request that
// has changed since begins with nothing ticked (ATK-49).
func (t *typed) again(problem string, form url.Values) {
	t.Problem = problem
	if form.Get("seen") == t.Seen {
		t.form = form
	}
}

// Ticked reports whether the person ticked a box. Nothing is ticked before (ATK-48).
func (t typed) Ticked(name, value string) bool { return slices.Contains(t.form[name], value) }

// Unticked reports whether the person took away what the page offers.
func (t typed) Unticked(name, value string) bool {
	return t.form != nil && !slices.Contains(t.form[name], value)
}

// Typed is what the person typed.
func (t typed) Typed(name string) string { return t.form.Get(name) }

// inPlace shows the page of a refused answer again, with the reason at its form. Errors
// that no other choice helps against stay pages of their own.
func (k *Console) inPlace(v *visit, err error, page func(v *visit, status int, problem string) error) error {
	var e *agentauth.Error
	if err == nil || v.wrote || !errors.As(err, &e) || e.RetryAfter > 0 {
		return err
	}
	switch e.Status() {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusConflict:
	default:
		return err
	}
	if page(v, e.Status(), v.T(e.Message)) != nil {
		return err
	}
	return nil
}
