package console

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// deskPrefix begins the ids of questions that policy and configuration leave to people.
const deskPrefix = "ask_"

// atDesk reports whether an id is one of the desk's.
func (k *Console) atDesk(id string) bool {
	return k.config.Desk != nil && strings.HasPrefix(id, deskPrefix)
}

// deskPage is one question.
type deskPage struct {
	Question          approval.Question
	Says              sentence
	Odd               []string // warnings, which stand below the sentence
	Does              string   // what the approval of a call does
	Asks              []deskAsk
	By                string // the caller, by the operator's name or by its holder id
	Named             bool   // By is the operator's
	State             string
	Open, Fresh, Mine bool
	Risky             bool
	Passkeys          bool
	HasPasskey        bool
	Endings           []ending
	People            []string // who is asked, in words
	Given             []approval.Given
	Revocable         bool
	typed
}

// deskAsk is one thing that is asked for.
type deskAsk struct {
	Key        string // of its inputs
	Says       string
	Grant      string
	Risky      bool
	Legacy     bool
	Over       bool // it would have ended by now
	Operations []choice
	Resources  []choice
	Arguments  []shownArgument
	Ends       time.Time // of the approved request, zero for a call
}

// choice is one thing that a person can leave out.
type choice struct {
	Value, Says string
	Write, Left bool // Left: not left out by an earlier reviewer
}

// inShort says in a line what the question asks for.
func inShort(l *lang.Language, q approval.Question) string {
	var parts []string
	for _, i := range changesFirst(q.Matters) {
		m := q.Matters[i]
		var names []string
		for _, op := range m.Operations {
			names = append(names, op.Name)
		}
		one := cmp.Or(m.Says, m.Grant) + " (" + strings.Join(names, ", ") + ")"
		if n := len(m.Resources); n == 1 {
			one += " " + l.T("on") + " " + m.Resources[0].Name
		} else if n > 1 {
			one += " " + l.N(n, "on %s resource", "on %s resources")
		}
		parts = append(parts, one)
	}
	return strings.Join(parts, "; ") + " " + l.T("at %s", q.Agent)
}

// changesFirst are the places of matters in the order in which a person reads them: those
// that change something come first, so they are not among those that a line has no room for.
func changesFirst(matters []issuer.Matter) []int {
	order := make([]int, 0, len(matters))
	for _, writes := range []bool{true, false} {
		for i, m := range matters {
			if slices.ContainsFunc(m.Operations, func(o issuer.Operation) bool { return o.Write }) == writes {
				order = append(order, i)
			}
		}
	}
	return order
}

func (k *Console) deskQuestion(v *visit, id string) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	q, err := k.config.Desk.Question(v.r.Context(), who, id)
	if err != nil {
		return err
	}
	page, err := k.deskPage(v, who, q)
	if err != nil {
		return err
	}
	return k.show(v, "desk", page)
}

// deskAgain shows a question again, with a problem at its form.
func (k *Console) deskAgain(v *visit, status int, problem string) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	q, err := k.config.Desk.Question(v.r.Context(), who, v.r.PathValue("id"))
	if err != nil {
		return err
	}
	page, err := k.deskPage(v, who, q)
	if err != nil {
		return err
	}
	page.again(problem, v.r.PostForm)
	return k.showStatus(v, status, "desk", page)
}

func (k *Console) deskPage(v *visit, who provider.Person, q approval.Question) (deskPage, error) {
	now := k.config.Now()
	page := deskPage{
		Question: q, Says: deskSays(v.Language, q, now), By: cmp.Or(q.Requester, q.Holder), Named: q.Requester != "", State: string(q.At(now)), Fresh: k.fresh(v), Passkeys: k.passkeys != nil,
		Open: q.WaitsFor(who, now), Mine: q.Principal == who.Principal, typed: typed{Seen: approval.Digest(q)}, Risky: q.Writes(), Given: q.Answers,
	}
	for _, i := range changesFirst(q.Matters) {
		page.Asks = append(page.Asks, deskAskOf(q, i, q.Matters[i], now))
	}
	for _, n := range q.Needs {
		page.People = append(page.People, needInWords(v.Language, n))
	}
	if q.Kind == approval.ForCall {
		page.Does = callDoes(v.Language, q)
	}
	keys, err := k.config.Passkeys.Passkeys(v.r.Context(), who.Principal)
	if err != nil {
		return page, err
	}
	page.HasPasskey = len(keys) > 0
	if page.Odd, err = k.deskOdd(v.r.Context(), v.Language, who, q); err != nil {
		return page, err
	}
	if page.Revocable, err = k.config.Approvals.Revocable(v.r.Context(), who, q); err != nil {
		return page, err
	}
	if q.Kind == approval.ForCapability {
		for _, e := range []ending{{minutes(v.Language, 5), now.Add(5 * time.Minute)}, {minutes(v.Language, 15), now.Add(15 * time.Minute)}} {
			if e.At.Before(q.Until) {
				e.At = e.At.Truncate(time.Minute)
				page.Endings = append(page.Endings, e)
			}
		}
	}
	return page, nil
}

// callDoes says on the button what the approval of a call does: the operations, and the
// argument that decides most.
func callDoes(l *lang.Language, q approval.Question) string {
	var parts []string
	for _, m := range q.Matters {
		for _, op := range m.Operations {
			parts = append(parts, visible(op.Name))
		}
	}
	does := clippedRunes(strings.Join(parts, ", "), maxQuoted)
	if len(q.Matters) == 1 {
		for i, a := range ordered(q.Matters[0].Arguments) {
			if i < 2 && importance(a) < len(firstNames) {
				does += ", " + clippedRunes(words(named(a.Name)), maxQuoted) + " " + readable(l, a.Value, maxQuoted)
			}
		}
	}
	return does + ", " + l.T("once")
}

func deskAskOf(q approval.Question, i int, m issuer.Matter, now time.Time) deskAsk {
	a := deskAsk{Over: q.Open(now) && approval.Ended(m, now), Key: strconv.Itoa(i), Says: cmp.Or(m.Says, m.Grant), Grant: m.Grant, Legacy: m.Legacy, Arguments: shownArguments(m.Arguments), Ends: m.Until}
	left := func(of map[string][]string, name string) bool {
		some, narrowed := of[m.Grant]
		return !narrowed || slices.Contains(some, name)
	}
	for _, op := range m.Operations {
		a.Operations = append(a.Operations, choice{op.Name, op.Name, op.Write, left(q.Chosen.Operations, op.Name)})
		a.Risky = a.Risky || op.Write
	}
	for n, r := range m.Resources {
		a.Resources = append(a.Resources, choice{strconv.Itoa(n), cmp.Or(r.Name, r.ID), false, left(q.Chosen.Resources, r.ID)})
	}
	return a
}

// needInWords says who is asked.
func needInWords(l *lang.Language, n approval.Need) string {
	who := strings.Join(n.Who, " "+l.T("or")+" ")
	for _, g := range n.Groups {
		if group := l.T("anybody of %s", g); who == "" {
			who = group
		} else {
			who += " " + l.T("or") + " " + group
		}
	}
	if n.Self {
		who = l.T("the user it acts for")
	}
	if n.People > 1 {
		who = l.T("%s of: %s", lang.Number(n.People), who)
	}
	if len(n.Delegates) > 0 {
		who = l.T("%s, or after %s %s", who, lasting(l, n.After), strings.Join(n.Delegates, " "+l.T("or")+" "))
	}
	return who
}

// readDesk reads an answer from a form.
func (k *Console) readDesk(v *visit, q approval.Question) (approval.Answer, error) {
	if err := v.r.ParseMultipartForm(formLimit); err != nil && v.r.PostForm == nil {
		return approval.Answer{}, agentauth.Errorf(agentauth.CodeInvalidRequest, "the form cannot be read")
	}
	form := v.r.PostForm
	a := approval.Answer{Seen: form.Get("seen"), Reason: form.Get("reason"), Language: languageOf(form)}
	switch form.Get("answer") {
	case "deny":
		return a, nil
	case "approve":
		a.Approve = true
	default:
		return a, agentauth.Errorf(agentauth.CodeInvalidRequest, "the answer is neither deny nor approve")
	}
	if a.Seen == "" {
		return a, agentauth.Errorf(agentauth.CodeInvalidRequest, "the form does not say what you were shown; open the request again")
	}
	if given := form.Get("until"); given != "" {
		var err error
		if a.Chosen.Until, err = time.Parse(time.RFC3339, given); err != nil || a.Chosen.Until.IsZero() { // the zero time would be no limit
			return a, agentauth.Errorf(agentauth.CodeInvalidRequest, "the end is no time")
		}
	}
	if q.Kind == approval.ForCall {
		for i, m := range q.Matters {
			if len(form["op."+strconv.Itoa(i)]) < len(m.Operations) {
				return a, agentauth.Errorf(agentauth.CodeInvalidRequest, "nothing is ticked: tick what the agent may do, or deny the request")
			}
		}
		return a, nil
	}
	a.Chosen.Operations, a.Chosen.Resources = map[string][]string{}, map[string][]string{}
	for i, m := range q.Matters {
		key := strconv.Itoa(i)
		a.Chosen.Operations[m.Grant] = append([]string{}, form["op."+key]...)
		if len(m.Resources) == 0 {
			continue
		}
		ids := []string{}
		for _, given := range form["on."+key] {
			n, err := strconv.Atoi(given)
			if err != nil || n < 0 || n >= len(m.Resources) {
				return a, agentauth.Errorf(agentauth.CodeInvalidRequest, "%s", v.T("%q is not among what is asked for; it can only be narrowed", given))
			}
			ids = append(ids, m.Resources[n].ID)
		}
		a.Chosen.Resources[m.Grant] = ids
	}
	return a, nil
}

// answeringDesk reads the person, the question and the answer, and refuses one that
// needs a fresh login.
func (k *Console) answeringDesk(v *visit) (provider.Person, approval.Question, approval.Answer, error) {
	who, err := k.person(v)
	if err != nil {
		return who, approval.Question{}, approval.Answer{}, err
	}
	q, err := k.config.Desk.Question(v.r.Context(), who, v.r.PathValue("id"))
	if err != nil {
		return who, q, approval.Answer{}, err
	}
	a, err := k.readDesk(v, q)
	if err == nil && a.Approve && !k.fresh(v) {
		err = agentauth.Errorf(agentauth.CodeUnauthorized, "%s", v.T("your login is older than %s; log in again, and then approve", lasting(v.Language, k.config.Fresh)))
	}
	return who, q, a, err
}

func (k *Console) deskChallenge(v *visit) error {
	who, q, a, err := k.answeringDesk(v)
	if err != nil {
		return err
	}
	if a.Seen != approval.Digest(q) {
		return agentauth.Errorf(agentauth.CodeChanged, "the request has changed since you opened it; load the page again")
	}
	digest, err := k.config.Desk.AnswerDigest(q, who, a)
	if err != nil {
		return err
	}
	return k.challenge(v, who, "desk", digest)
}

func (k *Console) deskAnswer(v *visit) error {
	who, q, a, err := k.answeringDesk(v)
	if err != nil {
		return err
	}
	if v.r.PostFormValue("assertion") != "" {
		if a.Proof, err = k.config.Desk.AnswerDigest(q, who, a); err != nil {
			return err
		}
		if a.Passkey, err = k.signed(v, who, "desk", a.Proof); err != nil {
			return err
		}
		who.Present = true
	}
	answered, err := k.config.Desk.Answer(v.r.Context(), who, q.ID, a)
	if err != nil {
		return err
	}
	if c := answered.Client; c != nil && c.Continue != "" && answered.State != issuer.StatePending && answered.Principal == who.Principal {
		// Browsers hold a redirect after a form to form-action, and the client is elsewhere.
		return k.show(v, "onward", c.Continue)
	}
	return v.see("/approve/" + q.ID)
}
