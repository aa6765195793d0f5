package operations

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/web/lang"
)

const givePath = Path + "/give"

const (
	giveMinutes = 60
	// giveLongest is the latest end that the form takes. Policy and configuration may end it
	// before.
	giveLongest = 7 * 24 * 60
)

// givePage is a grant after a denied call: the form, what it would give, and the button.
type givePage struct {
	api.Grant
	Path     string // of the record's page of grants
	Minutes  string // as typed
	Times    string
	Typed    string // limits
	User     string
	Ready    bool // what it would give is known
	Sentence string
	Ends     bool // earlier than asked for
	Repeat   string
	Problem  string
	Signs    bool
	Fresh    bool
	Again    string
}

func (p *Pages) giveRoutes() []Route {
	return []Route{
		{Pattern: "GET " + givePath + "/{id}", Serve: p.giveForm, Needs: people.Steer},
		{Pattern: "POST " + givePath + "/{id}/preview", Serve: p.giveForm, Needs: people.Steer, Effect: Asks},
		{Pattern: "POST " + givePath + "/{id}", Serve: p.give, Needs: people.Steer, Effect: Gives},
	}
}

// giveForm shows what would be given. The values are posted, so that no address, history
// or log has arguments.
func (p *Pages) giveForm(v *Visit) (Answer, error) {
	page, ask := p.givePage(v)
	if page.Problem != "" {
		return page.answer(v, nil)
	}
	return page.answer(v, page.preview(v, ask))
}

// givePage reads the form.
func (p *Pages) givePage(v *Visit) (*givePage, api.Giving) {
	id := v.PathValue("id")
	said := func(name string) string { return strings.TrimSpace(v.PostFormValue(name)) }
	page := &givePage{
		Path: givePath + "/" + url.PathEscape(id), Minutes: said("minutes"), Times: said("uses"), Typed: said("limits"), User: said("principal"),
		Signs: v.Signs, Fresh: v.Fresh,
	}
	page.Again = "/login?next=" + url.QueryEscape(page.Path)
	ask := api.Giving{Record: id, Principal: page.User, Holder: said("holder"), Uses: 1, DryRun: true}
	minutes := giveMinutes
	for _, one := range []struct {
		text, wrong string
		into        *int
		most        int
	}{
		{page.Minutes, lang.Mark("minutes must be a number from 1 to %s"), &minutes, giveLongest},
		{page.Times, lang.Mark("uses must be a number from 1 to %s"), &ask.Uses, 1000},
	} {
		if one.text == "" {
			continue
		}
		n, err := strconv.Atoi(one.text)
		if err != nil || n < 1 || n > one.most {
			page.Problem = v.T(one.wrong, lang.Number(one.most))
			continue
		}
		*one.into = n
	}
	if page.Minutes == "" {
		page.Minutes = strconv.Itoa(giveMinutes)
	}
	if page.Times == "" {
		page.Times = "1"
	}
	if page.Typed != "" {
		if ask.Limits = json.RawMessage(page.Typed); !json.Valid(ask.Limits) {
			page.Problem, ask.Limits = v.T(`The limits are not JSON; write an object such as {"title": "Report", "amount": {"max": 100}}.`), nil
		}
	}
	ask.Expires = p.config.Now().Add(time.Duration(minutes) * time.Minute).UTC().Truncate(time.Second)
	return page, ask
}

// preview asks what would be given.
func (page *givePage) preview(v *Visit, ask api.Giving) error {
	if err := v.API.Do(v.Context(), http.MethodPost, "/v1/grants", ask, &page.Grant); err != nil {
		return err
	}
	if len(page.Missing) > 0 {
		return nil
	}
	page.Ready, page.Ends = true, page.Expires.Before(ask.Expires)
	says, err := grantSentence(v.Language, page.Grant)
	page.Sentence = says
	return err
}

// answer shows the page. An error that another form could help against is shown in place, with
// the facts of the call.
func (page *givePage) answer(v *Visit, err error) (Answer, error) {
	var no *Refused
	switch {
	case errors.As(err, &no) && no.Status < http.StatusInternalServerError && no.Status != http.StatusNotFound:
		page.Problem = v.Language.Said(no.Message)
	case err != nil:
		return Answer{}, err
	}
	if page.Problem != "" {
		_ = page.preview(v, api.Giving{Record: v.PathValue("id"), DryRun: true}) // the problem says it
		page.Ready = false
	}
	return Answer{Page: "give", Title: v.T("Grant"), Body: page}, nil
}

// grantSentence words a grant in one sentence.
func grantSentence(l *lang.Language, g api.Grant) (string, error) {
	all, _, err := inWords(l, g.Authority)
	if err != nil {
		return "", err
	}
	text := l.T("%s may call %s at %s for %s", g.Caller, strings.TrimPrefix(g.Operation, g.Agent+"/"), g.Agent, g.Principal)
	for _, one := range all {
		if one.Operation != g.Operation {
			continue
		}
		var limits []string
		for _, limit := range one.Limits {
			limits = append(limits, limit.Argument+" "+limit.Says)
		}
		if len(limits) > 0 {
			text += l.T(", with %s and %s", strings.Join(limits, " "+l.T("and")+" "), one.Others)
		} else {
			text += l.T(", with %s", one.Others)
		}
	}
	times := l.T("once")
	if g.Uses != 1 {
		times = l.T("%s times", lang.Number(g.Uses))
	}
	return text + ", " + times + ".", nil
}

// give gives what the form says. Its values are those of the preview that the passkey signed.
func (p *Pages) give(v *Visit) (Answer, error) {
	page, ask := p.givePage(v)
	if page.Problem != "" {
		return page.answer(v, nil)
	}
	var err error
	if ask.Expires, err = time.Parse(time.RFC3339, v.PostFormValue("expires")); err != nil {
		page.Problem = v.T("The form has no end. Look at the preview again.")
		return page.answer(v, nil)
	}
	ask.DryRun = false
	var made api.Grant
	if err := v.API.Do(v.Context(), http.MethodPost, "/v1/grants", ask, &made); err != nil {
		return page.answer(v, err)
	}
	return Answer{Redirect: Path + "/capabilities/" + url.PathEscape(made.Capability)}, nil
}
