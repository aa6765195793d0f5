package operations

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/powerbox-project/powerbox/internal/web/api"
)

// tryPage asks about a call that is not made.
type tryPage struct {
	api.Try
	Text    string // of the arguments, as typed
	Agents  []string
	Verdict *api.Verdict
	First   string // name of the first layer that does not hold
	Problem string // why nothing was asked
}

// tryForm shows the form. Its values are posted, so that no address, history or
// log has it.
func (p *Pages) tryForm(v *Visit) (Answer, error) {
	page := tryPage{}
	page.Agent, page.Operation, page.Caller = v.URL.Query().Get("agent"), v.URL.Query().Get("operation"), v.URL.Query().Get("caller")
	return p.tryAnswer(v, page)
}

func (p *Pages) tryAsk(v *Visit) (Answer, error) {
	said := func(name string) string { return strings.TrimSpace(v.PostFormValue(name)) }
	page := tryPage{
		Text: said("arguments"),
		Try:  api.Try{Agent: said("agent"), Operation: said("operation"), Caller: said("caller"), Capability: said("capability"), Token: said("token")},
	}
	if page.Text != "" {
		if !json.Valid([]byte(page.Text)) {
			page.Problem = v.T(`The arguments are not JSON; write an object such as {"amount": 12}.`)
			return p.tryAnswer(v, page)
		}
		page.Arguments = json.RawMessage(page.Text)
	}
	var verdict api.Verdict
	err := v.API.Do(v.Context(), http.MethodPost, "/v1/try", page.Try, &verdict)
	var no *Refused
	switch {
	case errors.As(err, &no) && no.Status < http.StatusInternalServerError:
		page.Problem = v.Language.Said(no.Message)
	case err != nil:
		return Answer{}, err
	default:
		for i, l := range verdict.Layers {
			verdict.Layers[i].Name, verdict.Layers[i].Says = v.Language.Said(l.Name), v.Language.Said(l.Says)
		}
		for i, check := range verdict.Untried {
			verdict.Untried[i] = v.Language.Said(check)
		}
		page.Verdict = &verdict
		for _, l := range verdict.Layers {
			if !l.Holds {
				page.First = l.Name
				break
			}
		}
	}
	return p.tryAnswer(v, page)
}

func (p *Pages) tryAnswer(v *Visit, page tryPage) (Answer, error) {
	var err error
	page.Agents, err = v.API.someAgents(v.Context())
	return Answer{Page: "try", Title: v.T("Try it"), Body: page}, err
}
