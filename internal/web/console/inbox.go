package console

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// perPage is how many requests one page of the inbox has.
const perPage = 50

// row is one request in the inbox: what makes it different from the others.
type row struct {
	ID           string
	Agent        string // whose it is, for the filter
	By           sentence
	What         sentence
	Reason       string // the agent's own words
	For          string // the user behind, where that is another person
	Capabilities []string
	Risky        bool
	Expires      time.Time
}

// rows are the requests of one agent, or one queue of the desk.
type rows struct {
	Title sentence // of an agent
	Rows  []row
}

// filter is what a person looks for in the inbox.
type filter struct {
	Text, Agent, Capability string
	Risky                   bool
	Page                    int // from 1
}

// option is one value of a filter, with its text.
type option struct{ Value, Text string }

// inboxPage has the requests that wait for a person.
type inboxPage struct {
	Code         string
	Codes        bool // whether agents show codes here
	Total, Found int
	Pages        int
	Filter       filter
	Agents       []option
	Capabilities []string
	Groups       []rows // by agent: ten questions of one agent are one matter (ATK-48)
	Own, Review  []row
	Chosen       []string // stay ticked after an error
	Done         string   // what became of the last answer
	Ended        []row    // could not be denied: they had ended
	Problem      string
}

// filterOf reads a filter from a URL.
func filterOf(u url.Values) filter {
	page, _ := strconv.Atoi(u.Get("page"))
	return filter{
		Text: clippedRunes(strings.TrimSpace(u.Get("q")), 100), Agent: clipped(u.Get("agent"), 200), Capability: clipped(u.Get("capability"), 200),
		Risky: u.Get("risky") != "", Page: max(1, page),
	}
}

// Query is the filter as a URL has it, at another page.
func (f filter) Query(page int) string {
	u := url.Values{}
	for name, value := range map[string]string{"q": f.Text, "agent": f.Agent, "capability": f.Capability} {
		if value != "" {
			u.Set(name, value)
		}
	}
	if f.Risky {
		u.Set("risky", "1")
	}
	if page > 1 {
		u.Set("page", strconv.Itoa(page))
	}
	return u.Encode()
}

// Set reports whether anything is looked for.
func (f filter) Set() bool { return f.Text != "" || f.Agent != "" || f.Capability != "" || f.Risky }

// admits reports whether a request is looked for.
func (f filter) admits(r row) bool {
	switch {
	case f.Agent != "" && r.Agent != f.Agent, f.Risky && !r.Risky, f.Capability != "" && !slices.Contains(r.Capabilities, f.Capability):
		return false
	}
	text := strings.ToLower(r.By.String() + " " + r.What.String() + " " + r.Reason + " " + r.For + " " + strings.Join(r.Capabilities, " "))
	return strings.Contains(text, strings.ToLower(f.Text))
}

// Before and After are the pages beside this one, 0 for none.
func (p inboxPage) Before() int { return max(0, p.Filter.Page-1) }

// After is the next page, 0 for none.
func (p inboxPage) After() int {
	if p.Filter.Page < p.Pages {
		return p.Filter.Page + 1
	}
	return 0
}

// listed is a row as it stands in a list.
type listed struct {
	row
	Keeps  bool // stays ticked after an error
	ShowBy bool // no heading says whose it is
}

// In is a row as it stands in a list.
func (p inboxPage) In(r row, by bool) listed { return listed{r, slices.Contains(p.Chosen, r.ID), by} }

func (k *Console) home(v *visit) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	page, err := k.inbox(v, who)
	if err != nil {
		return err
	}
	return k.show(v, "approvals", page)
}

// inbox finds the requests that a person looks for.
func (k *Console) inbox(v *visit, who provider.Person) (inboxPage, error) {
	page := inboxPage{Code: clipped(v.r.URL.Query().Get("code"), 20), Codes: len(k.config.Offers.Offered()) > 0, Filter: filterOf(v.r.URL.Query())}
	qs, err := k.config.Questions.Questions(v.r.Context(), who)
	if err != nil {
		return page, err
	}
	groups := k.groups(v.Language, qs)
	own, review, err := k.deskRows(v, who)
	if err != nil {
		return page, err
	}
	page.fill(append(groups, rows{Rows: own}, rows{Rows: review}))
	return page, nil
}

// fill takes the rows of one page from all of them. The last two groups are the queues of
// the desk.
func (p *inboxPage) fill(all []rows) {
	for _, g := range all {
		for _, r := range g.Rows {
			p.Total++
			p.offer(r)
			if p.Filter.admits(r) {
				p.Found++
			}
		}
	}
	sorting.Sort(p.Agents, func(a, b option) int { return cmp.Compare(a.Text, b.Text) })
	slices.Sort(p.Capabilities)
	p.Pages = max(1, (p.Found+perPage-1)/perPage)
	p.Filter.Page = min(p.Filter.Page, p.Pages)
	first, n := (p.Filter.Page-1)*perPage, 0
	for i, g := range all {
		some := rows{Title: g.Title}
		for _, r := range g.Rows {
			if !p.Filter.admits(r) {
				continue
			}
			if n >= first && n < first+perPage {
				some.Rows = append(some.Rows, r)
			}
			n++
		}
		switch {
		case i == len(all)-2:
			p.Own = some.Rows
		case i == len(all)-1:
			p.Review = some.Rows
		case len(some.Rows) > 0:
			p.Groups = append(p.Groups, some)
		}
	}
}

// offer adds what a request can be found by to the filters.
func (p *inboxPage) offer(r row) {
	if !slices.ContainsFunc(p.Agents, func(o option) bool { return o.Value == r.Agent }) {
		p.Agents = append(p.Agents, option{r.Agent, r.By.String()})
	}
	for _, c := range r.Capabilities {
		if !slices.Contains(p.Capabilities, c) {
			p.Capabilities = append(p.Capabilities, c)
		}
	}
}

// groups has the requests of one agent together, in the order of the newest of each.
func (k *Console) groups(l *lang.Language, qs []provider.Question) []rows {
	var out []rows
	at := map[string]int{}
	for _, q := range qs {
		i, ok := at[q.Agent.ID]
		if !ok {
			i = len(out)
			at[q.Agent.ID] = i
			out = append(out, rows{Title: agentSays(l, q)})
		}
		out[i].Rows = append(out[i].Rows, k.row(l, q))
	}
	return out
}

// agentSays names an agent and its computer, in their own words.
func agentSays(l *lang.Language, q provider.Question) (s sentence) {
	s.quote(l, q.Agent.Name)
	if q.Host.Name != "" {
		s.say(" " + l.T("on") + " ")
		s.quote(l, q.Host.Name)
	}
	return s
}

func (k *Console) row(l *lang.Language, q provider.Question) row {
	asks := k.asks(l, q)
	r := row{ID: q.Approval.ID, Agent: q.Agent.ID, By: agentSays(l, q), Reason: q.Approval.Reason, Expires: q.Approval.Expires}
	for _, a := range asks {
		r.Capabilities = append(r.Capabilities, a.Name)
		r.Risky = r.Risky || a.Risky
	}
	switch {
	case q.Approval.Kind == provider.ForClaim:
		r.What.say(l.T("To become yours, with its computer"))
	case len(asks) == 0:
		r.What.say(l.T("To be let in, without any capability"))
	default:
		r.What = wants(l, asks)
		if d := k.lasts(q); d > 0 {
			r.What.say(", " + l.T("for up to %s", upTo(l, d)))
		}
	}
	return r
}

// deskRows are the two queues of a person at the desk.
func (k *Console) deskRows(v *visit, who provider.Person) (own, review []row, err error) {
	if k.config.Desk == nil {
		return nil, nil, nil
	}
	mine, others, err := k.config.Desk.Questions(v.r.Context(), who)
	now := k.config.Now()
	list := func(qs []approval.Question) (out []row) {
		for _, q := range qs {
			out = append(out, deskRow(v.Language, q, now))
		}
		return out
	}
	return list(mine), list(others), err
}

func deskRow(l *lang.Language, q approval.Question, now time.Time) row {
	r := row{ID: q.ID, Agent: cmp.Or(q.Requester, q.Holder), Reason: q.Purpose, For: q.Principal, Risky: q.Writes(), Expires: q.Expires}
	if q.Requester != "" {
		r.By.say(visible(q.Requester))
	} else {
		r.By.say(l.T("an agent without a name, %s", clippedRunes(visible(q.Holder), maxQuoted)))
	}
	for i, m := range q.Matters {
		if i < maxSaid {
			if i > 0 {
				r.What.say("; ")
			}
			r.What = append(r.What, matterSays(l, m)...)
		}
		r.Capabilities = append(r.Capabilities, m.Grant)
	}
	if n := len(q.Matters) - maxSaid; n > 0 {
		r.What.say("; " + l.T("and %s more", lang.Number(n)))
	}
	if q.Kind == approval.ForCall {
		r.What.say(", " + l.T("once"))
	} else if q.Until.After(now) {
		r.What.say(", " + l.T("for up to %s", upTo(l, q.Until.Sub(now))))
	}
	return r
}

// denyChosen denies every chosen request, each by an answer of its own, and says how many
// were denied. It approves nothing.
func (k *Console) denyChosen(v *visit, who provider.Person) error {
	chosen := v.r.PostForm["deny"]
	if len(chosen) == 0 || len(chosen) > perPage {
		page, err := k.inbox(v, who)
		if err != nil {
			return err
		}
		if page.Problem = v.T("Nothing is chosen: tick the requests to deny."); len(chosen) > 0 {
			page.Problem, page.Chosen = v.T("At most %s requests can be denied at once. Nothing was denied.", lang.Number(perPage)), chosen
		}
		return k.showStatus(v, http.StatusBadRequest, "approvals", page)
	}
	denied, ended := 0, []row{}
	for _, id := range chosen {
		err := k.deny(v, who, id)
		switch e := (*agentauth.Error)(nil); {
		case err == nil:
			denied++
		case errors.As(err, &e) && e.Status() < http.StatusInternalServerError:
			ended = append(ended, k.endedRow(v, who, id))
		default:
			return err
		}
	}
	page, err := k.inbox(v, who)
	if err != nil {
		return err
	}
	page.Done = v.T("Denied: %s.", lang.Number(denied))
	page.Ended = ended
	return k.show(v, "approvals", page)
}

// endedRow is a request that could not be denied: it had ended, or it is not the
// person's, and then nothing is said of it.
func (k *Console) endedRow(v *visit, who provider.Person, id string) row {
	if k.atDesk(id) {
		if q, err := k.config.Desk.Question(v.r.Context(), who, id); err == nil {
			return deskRow(v.Language, q, k.config.Now())
		}
	} else if q, err := k.config.Questions.Question(v.r.Context(), who, id); err == nil {
		return k.row(v.Language, q)
	}
	return row{}
}

// deny denies one request. An answer that gives nothing needs no page that was seen.
func (k *Console) deny(v *visit, who provider.Person, id string) error {
	if k.atDesk(id) {
		_, err := k.config.Desk.Answer(v.r.Context(), who, id, approval.Answer{})
		return err
	}
	_, err := k.config.Questions.Answer(v.r.Context(), who, id, provider.Answer{Deny: true})
	return err
}
