package console

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/peer"
	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// waiting are the open requests of one agent.
type waiting struct {
	Agent, Name, Host string
	Requests          []request
}

type request struct {
	ID   string
	Asks []asked
}

// byAgent has the requests of one agent together: ten questions of one agent are
// one matter (ATK-48).
func (k *Console) byAgent(l *lang.Language, qs []provider.Question) []waiting {
	var out []waiting
	for _, q := range qs {
		i := slices.IndexFunc(out, func(w waiting) bool { return w.Agent == q.Agent.ID })
		if i < 0 {
			out = append(out, waiting{Agent: q.Agent.ID, Name: q.Agent.Name, Host: q.Host.Name})
			i = len(out) - 1
		}
		out[i].Requests = append(out[i].Requests, request{ID: q.Approval.ID, Asks: k.asks(l, q)})
	}
	return out
}

// byCode finds the request of a code that someone typed. It is a post, so that a
// link with a code in it neither opens a request nor spends a guess (ATK-50).
func (k *Console) byCode(v *visit) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	if v.r.PostFormValue("answer") == "deny" {
		return k.denyChosen(v, who)
	}
	q, err := k.config.Questions.ByCode(v.r.Context(), who, v.r.PostFormValue("code"))
	if err != nil {
		return err
	}
	return v.see("/approve/" + q.Approval.ID)
}

func clipped(s string, longest int) string {
	if len(s) > longest {
		return s[:longest]
	}
	return s
}

// asked is one capability that is asked for, as a person judges it.
type asked struct {
	Grant, Name, Says string
	Sensitivity       provider.Sensitivity
	Risky             bool // it changes something, and takes a passkey
	High              bool
	New               bool     // the agent has nothing of it
	Holds             []string // the rights that the agent has of it, in words
	Refused           int      // how often a person refused it to this agent before
	Fields            []field
	Theirs            []string // limits that the agent names and the server does not know
	Broad             bool     // risky, and not held to anything that the server knows
	Status            agentauth.Status
	Gone              bool      // not offered any more, or nothing of it
	Uses              int       // how often it can be used, 0 for no bound
	Wider             string    // the limits that are wider than those of what the agent has
	Until             time.Time // of a grant in force
}

// Told is the capability as the button says it.
func (a asked) Told() string { return told(a.Says) }

func (k *Console) asks(l *lang.Language, q provider.Question) []asked {
	out := make([]asked, 0, len(q.Grants))
	for _, g := range q.Grants {
		c := k.config.Offers.Capability(g.Capability)
		one := asked{Grant: g.ID, Name: g.Capability, Status: g.Status, Gone: c == nil || c.Blocked || g.Status == agentauth.Pending && !k.config.States.Remains(g), New: true, Fields: fields(l, g, c), Theirs: theirs(l, g, c)}
		if c != nil {
			one.Says, one.Sensitivity = c.Description, c.Sensitivity
			one.Risky, one.High = c.Sensitivity != provider.Read, c.Sensitivity == provider.High
			one.Uses = c.Budgets.Uses
		}
		one.Wider = wider(l, one.Fields, g, q.Held, c)
		if one.Until = q.Agent.Created.Add(q.Agent.Clocks.Absolute); !g.Expires.IsZero() && g.Expires.Before(one.Until) {
			one.Until = g.Expires
		}
		one.Broad = one.Risky && !slices.ContainsFunc(one.Fields, func(f field) bool { return len(f.Limits) > 0 })
		for _, h := range q.Held {
			if h.Capability == g.Capability {
				one.New = false
				one.Holds = append(one.Holds, inWords(l, h, c))
			}
		}
		for _, d := range q.Denied {
			if d.Capability == g.Capability {
				one.Refused++
			}
		}
		out = append(out, one)
	}
	// What can do most comes first, wherever the agent put it.
	sorting.Stable(out, func(a, b asked) int { return b.rank() - a.rank() })
	return out
}

// inWords writes the constraints of fields on one line.
func inWords(l *lang.Language, g provider.Grant, c *provider.Capability) string {
	var parts []string
	for _, f := range fields(l, g, c) {
		if len(f.Limits) > 0 {
			parts = append(parts, visible(f.Name)+" "+f.Words())
		}
	}
	if len(parts) == 0 {
		parts = append(parts, l.T("with any values"))
	}
	if own := theirs(l, g, c); len(own) > 0 {
		parts = append(parts, l.T("and in the agent's own words %s", strings.Join(own, ", ")))
	}
	return strings.Join(parts, "; ")
}

// ending is one end that a person can choose.
type ending struct {
	Says string
	At   time.Time
}

// questionPage is one request.
type questionPage struct {
	Question                  provider.Question
	Says                      sentence
	Odd                       []string // warnings, which stand below the sentence
	Who                       string   // the agent's user, or who would become it
	Asks                      []asked
	Held                      []heldGrant
	Others                    []request // open requests of the same agent
	Over                      string    // why it ended without an answer
	Open, Fresh               bool
	Passkeys, HasPasskey      bool
	NeedsPasskey              bool
	MayRevoke                 bool
	Entails                   []string  // the defaults that agents of the host then have unasked and that change something, in words
	Ends                      time.Time // of the agent
	Idle                      string    // how long it lives without a request
	Endings                   []ending
	HostKnown, HostKeysServed bool
	HostKeys                  string // host name that serves the host's keys, "" for an inline key
	Here                      bool   // it was asked from where the visitor is
	Kind                      string
	History                   []deed           // of an agent that the person is asked to take over
	Claimed                   []provider.Agent // that end when the host becomes the person's: the first of them
	ClaimedMore               int              // how many there are besides
	typed
}

// located compares where it was asked from with where the visitor is. If a proxy may stand
// in front of the visitor, all addresses here may be its own: then the page has none.
func (p *questionPage) located(visitor string) {
	if visitor == "" {
		p.Question.Approval.From, p.Question.Host.From = "", ""
		return
	}
	p.Here = p.Question.Approval.From == visitor
}

// claimedShown bounds how many agents are named that would be claimed.
const claimedShown = 20

type heldGrant struct {
	Says, Words string
	Expires     time.Time
}

func (k *Console) question(v *visit) error {
	id := v.r.PathValue("id")
	if k.atDesk(id) {
		return k.deskQuestion(v, id)
	}
	if _, isCode := provider.NormalCode(id); isCode {
		return v.see("/approve?code=" + url.QueryEscape(id))
	}
	who, err := k.person(v)
	if err != nil {
		return err
	}
	q, err := k.config.Questions.Question(v.r.Context(), who, id)
	if err != nil {
		return err
	}
	page, err := k.questionPage(v, who, q)
	if err != nil {
		return err
	}
	return k.show(v, "question", page)
}

func (k *Console) questionPage(v *visit, who provider.Person, q provider.Question) (questionPage, error) {
	now := k.config.Now()
	page := questionPage{
		Question: q, Who: q.Host.User, Asks: k.asks(v.Language, q), typed: typed{Seen: k.config.Digests.Digest(q)}, Open: k.config.States.Open(q), Over: k.config.States.Over(q), Fresh: k.fresh(v), Passkeys: k.passkeys != nil,
		Idle: lasting(v.Language, q.Agent.Clocks.Session),
		Ends: q.Agent.Created.Add(q.Agent.Clocks.Absolute), HostKnown: q.Host.Status == agentauth.Active, Kind: string(q.Approval.Kind),
		MayRevoke: q.Host.User == who.Principal || k.config.People.Administrator(who),
	}
	page.Says = k.says(v.Language, q, page.Asks)
	page.Odd = k.odd(v.Language, q, page.Asks)
	page.located(peer.Of(v.r).Shown())
	if page.Who == "" && q.Agent.Mode == agentauth.Delegated || q.Approval.Kind == provider.ForClaim {
		page.Who = who.Principal
	}
	if u, err := url.Parse(q.Host.KeysURL); err == nil {
		page.HostKeys = u.Host
	}
	if q.Approval.Kind == provider.ForClaim {
		history, err := k.config.Activity.History(v.r.Context(), who, q)
		if err != nil {
			return page, err
		}
		page.History = k.deeds(v, who, history)
	}
	page.Claimed = q.Claimed[:min(len(q.Claimed), claimedShown)]
	page.ClaimedMore = len(q.Claimed) - len(page.Claimed)
	for _, c := range k.config.Offers.Entails(q) {
		page.Entails = append(page.Entails, c.Description)
	}
	page.NeedsPasskey = len(page.Entails) > 0 || slices.ContainsFunc(page.Asks, func(a asked) bool { return a.Risky })
	for _, h := range q.Held {
		c := k.config.Offers.Capability(h.Capability)
		one := heldGrant{Says: h.Capability, Words: inWords(v.Language, h, c), Expires: h.Expires}
		if c != nil {
			one.Says = c.Description
		}
		page.Held = append(page.Held, one)
	}
	for _, e := range []ending{{hours(v.Language, 1), now.Add(time.Hour)}, {days(v.Language, 1), now.Add(24 * time.Hour)}} {
		if e.At.Before(page.Ends) {
			e.At = e.At.Truncate(time.Minute)
			page.Endings = append(page.Endings, e)
		}
	}
	keys, err := k.config.Passkeys.Passkeys(v.r.Context(), who.Principal)
	if err != nil {
		return page, err
	}
	page.HasPasskey = len(keys) > 0
	all, err := k.config.Questions.Questions(v.r.Context(), who)
	if err != nil {
		return page, err
	}
	for _, w := range k.byAgent(v.Language, all) {
		for _, r := range w.Requests {
			if w.Agent == q.Agent.ID && r.ID != q.Approval.ID {
				page.Others = append(page.Others, r)
			}
		}
	}
	return page, nil
}

// read reads an answer from a form.
func (k *Console) read(v *visit, q provider.Question) (provider.Answer, error) {
	if err := v.r.ParseMultipartForm(formLimit); err != nil && v.r.PostForm == nil {
		return provider.Answer{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "the form cannot be read")
	}
	form := v.r.PostForm
	answer := provider.Answer{Seen: form.Get("seen"), Reason: form.Get("reason"), Language: languageOf(form)}
	switch form.Get("answer") {
	case "deny":
		answer.Deny = true
		for _, g := range q.Grants {
			answer.Decisions = append(answer.Decisions, provider.Decision{Grant: g.ID, Reason: form.Get("why." + g.ID)})
		}
		return answer, nil
	case "approve":
	default:
		return answer, agentauth.Errorf(agentauth.CodeInvalidRequest, "the answer is neither deny nor approve")
	}
	if answer.Seen == "" {
		return answer, agentauth.Errorf(agentauth.CodeInvalidRequest, "the form does not say what you were shown; open the request again")
	}
	var until time.Time
	if given := form.Get("until"); given != "" {
		var err error
		if until, err = time.Parse(time.RFC3339, given); err != nil || until.IsZero() { // the zero time would be no limit
			return answer, agentauth.Errorf(agentauth.CodeInvalidRequest, "the end is no time")
		}
	}
	chosen := form["grant"]
	if len(chosen) == 0 {
		return answer, agentauth.Errorf(agentauth.CodeInvalidRequest, "nothing is ticked: tick what the agent may do, or deny the request")
	}
	for _, g := range q.Grants {
		d := provider.Decision{Grant: g.ID, Approve: slices.Contains(chosen, g.ID), Until: until}
		if !d.Approve {
			d.Reason = form.Get("why." + g.ID)
		} else {
			var err error
			if d.Constraints, err = narrower(fields(v.Language, g, k.config.Offers.Capability(g.Capability)), form); err != nil {
				return answer, err
			}
		}
		answer.Decisions = append(answer.Decisions, d)
	}
	return answer, nil
}

// answering reads the person, the question and the answer, and refuses one that needs a
// fresh login.
func (k *Console) answering(v *visit) (provider.Person, provider.Question, provider.Answer, error) {
	who, err := k.person(v)
	if err != nil {
		return who, provider.Question{}, provider.Answer{}, err
	}
	q, err := k.config.Questions.Question(v.r.Context(), who, v.r.PathValue("id"))
	if err != nil {
		return who, q, provider.Answer{}, err
	}
	answer, err := k.read(v, q)
	if err == nil && !answer.Deny && !k.fresh(v) {
		err = agentauth.Errorf(agentauth.CodeUnauthorized, "%s", v.T("your login is older than %s; log in again, and then approve", lasting(v.Language, k.config.Fresh)))
	}
	return who, q, answer, err
}

// answerChallenge asks the person's passkey to sign the answer in the form.
func (k *Console) answerChallenge(v *visit) error {
	if k.atDesk(v.r.PathValue("id")) {
		return k.deskChallenge(v)
	}
	who, q, answer, err := k.answering(v)
	if err != nil {
		return err
	}
	if answer.Seen != k.config.Digests.Digest(q) {
		return agentauth.Errorf(agentauth.CodeChanged, "the request has changed since you opened it; load the page again")
	}
	digest, err := k.config.Digests.AnswerDigest(q, who, answer)
	if err != nil {
		return err
	}
	return k.challenge(v, who, "answer", digest)
}

func (k *Console) answer(v *visit) error {
	if k.atDesk(v.r.PathValue("id")) {
		return k.inPlace(v, k.deskAnswer(v), k.deskAgain)
	}
	return k.inPlace(v, k.agentAnswer(v), k.questionAgain)
}

// questionAgain shows a question again, with a problem at its form.
func (k *Console) questionAgain(v *visit, status int, problem string) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	q, err := k.config.Questions.Question(v.r.Context(), who, v.r.PathValue("id"))
	if err != nil {
		return err
	}
	page, err := k.questionPage(v, who, q)
	if err != nil {
		return err
	}
	page.again(problem, v.r.PostForm)
	for i := range page.Asks {
		for n := range page.Asks[i].Fields {
			page.Asks[i].Fields[n].typed = page.form
		}
	}
	return k.showStatus(v, status, "question", page)
}

func (k *Console) agentAnswer(v *visit) error {
	who, q, answer, err := k.answering(v)
	if err != nil {
		return err
	}
	if v.r.PostFormValue("assertion") != "" {
		if answer.Proof, err = k.config.Digests.AnswerDigest(q, who, answer); err != nil {
			return err
		}
		if answer.Passkey, err = k.signed(v, who, "answer", answer.Proof); err != nil {
			return err
		}
		who.Present = true
	}
	if _, err := k.config.Questions.Answer(v.r.Context(), who, q.Approval.ID, answer); err != nil {
		return err
	}
	return v.see("/approve/" + q.Approval.ID)
}

// lasting says how long something lasts, as people do.
func lasting(l *lang.Language, d time.Duration) string {
	for _, unit := range []struct {
		of  time.Duration
		say func(*lang.Language, int) string
	}{{24 * time.Hour, days}, {time.Hour, hours}, {time.Minute, minutes}, {time.Second, seconds}} {
		if n := int(d / unit.of); d%unit.of == 0 && n > 0 {
			return unit.say(l, n)
		}
	}
	return d.String()
}

func days(l *lang.Language, n int) string    { return l.N(n, "%s day", "%s days") }
func hours(l *lang.Language, n int) string   { return l.N(n, "%s hour", "%s hours") }
func minutes(l *lang.Language, n int) string { return l.N(n, "%s minute", "%s minutes") }
func seconds(l *lang.Language, n int) string { return l.N(n, "%s second", "%s seconds") }
