package operations

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/web/lang"
)

// steerPage is the preview of a change, with its form.
type steerPage struct {
	Agent  string
	Action string // of the form
	Signs  bool
	Fresh  bool
	Again  string // where the page is after another login

	Status api.AgentStatus
	Thaw   bool
	Frozen *api.FreezeStatus
	Live   int // capabilities in force that stop
	Many   bool

	To      string // the new mode
	Now     string
	Modes   []string
	Looked  int  // records
	Cut     bool // there were more in the time
	Calls   int
	Denied  int // of them, in the new mode
	Untold  int // whose records do not say
	Uses    []useRow
	Silent  bool // the new mode denies nothing that the report counts
	Explain string
}

// useRow is the calls of one caller to one operation.
type useRow struct {
	audit.Use
	Denies, Unknown int
	Says            string
}

func (p *Pages) steer(v *Visit) steerPage {
	id := v.PathValue("id")
	return steerPage{Agent: id, Action: v.URL.Path, Signs: v.Signs, Fresh: v.Fresh, Again: "/login?next=" + url.QueryEscape(v.URL.RequestURI())}
}

// status returns an agent as /v1/agents has it.
func (a API) status(ctx context.Context, id string) (api.AgentStatus, error) {
	found, _, err := a.agents(ctx, url.Values{"first": {id}}, 1)
	if err != nil {
		return api.AgentStatus{}, err
	}
	if len(found) == 0 || found[0].ID != id {
		return api.AgentStatus{}, &Refused{http.StatusNotFound, "no agent " + strconv.Quote(id) + " is protected here"}
	}
	return found[0], nil
}

// previewStop says what a freeze or a thaw of an agent changes.
func (p *Pages) previewStop(thaw bool) func(*Visit) (Answer, error) {
	return func(v *Visit) (Answer, error) {
		page := p.steer(v)
		page.Thaw = thaw
		var err error
		if page.Status, err = v.API.status(v.Context(), page.Agent); err != nil {
			return Answer{}, err
		}
		if page.Frozen, err = v.API.freeze(v.Context(), agentTarget(page.Agent)); err != nil {
			return Answer{}, err
		}
		found, next, err := v.API.capabilities(v.Context(), url.Values{"agent": {page.Agent}}, countLimit)
		page.Live, page.Many = len(found), next != ""
		title := v.T("Freeze %s", page.Agent)
		if thaw {
			title = v.T("Thaw %s", page.Agent)
		}
		return Answer{Page: "freeze", Title: title, Body: page}, err
	}
}

// countLimit is up to how many capabilities are counted.
const countLimit = 200

// stop freezes or thaws an agent.
func (p *Pages) stop(path string) func(*Visit) (Answer, error) {
	return func(v *Visit) (Answer, error) {
		id := v.PathValue("id")
		body := map[string]string{"target": agentTarget(id), "reason": v.PostFormValue("reason")}
		if err := v.API.Do(v.Context(), http.MethodPost, path, body, nil); err != nil {
			return Answer{}, err
		}
		return Answer{Redirect: "/admin/agents/" + url.PathEscape(id)}, nil
	}
}

const (
	// These bound the records that a preview of a mode looks at: their time, how many of the
	// agent, and how many pages of the log. Each page is a scan.
	observedTime  = 24 * time.Hour
	observedLimit = 5000
	observedPages = 2
	useLimit      = 100
)

// previewMode says which observed calls another mode would deny.
func (p *Pages) previewMode(v *Visit) (Answer, error) {
	page := p.steer(v)
	var err error
	if page.Status, err = v.API.status(v.Context(), page.Agent); err != nil {
		return Answer{}, err
	}
	page.Modes = []string{string(gate.Observe), string(gate.Scoped), string(gate.Prefer), string(gate.Require)}
	page.Now, page.To = page.Status.Mode, v.URL.Query().Get("to")
	if page.To == "" {
		page.To = page.Now
	}
	if !slices.Contains(append([]string{api.ModeConfigured}, page.Modes...), page.To) {
		return Answer{}, &Refused{http.StatusBadRequest, "to is one of observe, scoped, prefer, require and configured"}
	}
	page.Explain = v.T(modes[page.To])
	if err := page.observe(v, p.config.Now().Add(-observedTime)); err != nil {
		return Answer{}, err
	}
	return Answer{Page: "mode", Title: v.T("Mode of %s", page.Agent), Body: page}, nil
}

// modes say what each mode does.
var modes = map[string]string{
	"observe":    lang.Mark("Every call continues. The record says what other modes would have denied."),
	"scoped":     lang.Mark("A call without a capability is held to the scope that the configuration gives its caller."),
	"prefer":     lang.Mark("A capability is enforced if the call has one. A call without one continues."),
	"require":    lang.Mark("A call without a capability is denied."),
	"configured": lang.Mark("The mode of the configuration holds again, also after it changes."),
}

// observe counts what the new mode would have done with the calls since a time.
func (page *steerPage) observe(v *Visit, since time.Time) error {
	calls, left := audit.Summary{}, observedPages
	source := logWindow{v.API, since.Add(observedTime), &left, &page.Cut}
	for record, err := range source.Each(v.Context(), audit.Query{Agent: page.Agent, Since: since, AnyOrder: true}) {
		if err != nil {
			return err
		}
		if page.Looked == observedLimit {
			page.Cut = true
			break
		}
		page.Looked++
		calls.Add(record)
	}
	page.Silent = page.To != string(gate.Scoped) && page.To != string(gate.Require)
	for _, u := range calls.List() {
		row := useRow{Use: u}
		switch page.To {
		case string(gate.Scoped):
			row.Denies, row.Unknown, row.Says = u.AtScoped.Denied, u.AtScoped.Unknown, says(v.Language, u.AtScoped.Denied-u.AtScoped.Mendable, u.AtScoped.Mendable, u.AtScoped.Unknown, v.T("a scope"))
		case string(gate.Require):
			row.Denies, row.Unknown, row.Says = u.AtRequire.Denied, u.AtRequire.Unknown, says(v.Language, u.AtRequire.Denied-u.AtRequire.Mendable, u.AtRequire.Mendable, u.AtRequire.Unknown, v.T("a capability"))
		}
		page.Calls, page.Denied, page.Untold = page.Calls+u.Calls, page.Denied+row.Denies, page.Untold+row.Unknown
		page.Uses = append(page.Uses, row)
	}
	sorting.Stable(page.Uses, func(a, b useRow) int { return b.Denies - a.Denies })
	page.Uses = page.Uses[:min(len(page.Uses), useLimit)]
	return nil
}

// says what a mode would do with calls: how many it denies, how many of them only want what
// the caller could have, and how many cannot be told.
func says(l *lang.Language, denied, wanting, unknown int, want string) string {
	var parts []string
	if denied > 0 {
		parts = append(parts, l.T("deny %s", lang.Number(denied)))
	}
	if wanting > 0 {
		parts = append(parts, l.T("want %s for %s", want, lang.Number(wanting)))
	}
	if unknown > 0 {
		parts = append(parts, l.T("not known for %s", lang.Number(unknown)))
	}
	if len(parts) == 0 {
		return l.T("allow")
	}
	return strings.Join(parts, ", ")
}

// setMode switches the mode of an agent.
func (p *Pages) setMode(v *Visit) (Answer, error) {
	id := v.PathValue("id")
	err := v.API.Do(v.Context(), http.MethodPut, "/v1/agents/"+url.PathEscape(id)+"/mode", map[string]string{"mode": v.PostFormValue("mode")}, nil)
	return Answer{Redirect: "/admin/agents/" + url.PathEscape(id)}, err
}
