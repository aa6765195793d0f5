package console

import (
	"bytes"
	"encoding/json"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/approval"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

var testNow = time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)

// offers only have capabilities.
type offers struct {
	Offers
	States
	all map[string]*provider.Capability
}

func (o offers) Capability(name string) *provider.Capability { return o.all[name] }
func (o offers) Remains(provider.Grant) bool                 { return true }

func parsed(t *testing.T, text string) powerbox.Value {
	t.Helper()
	v, err := powerbox.ParseValue([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func testConsole(t *testing.T) *Console {
	t.Helper()
	pay := parsed(t, `{"properties": {"amount": {"type": "number", "x-currency": "currency"}, "currency": {"enum": ["EUR", "CHF"]}, "to_account": {"type": "string"}}}`)
	plain := parsed(t, `{"properties": {"amount": {"type": "number"}, "currency": {"enum": ["EUR", "CHF"]}}}`)
	return &Console{config: Config{Name: "Harbour", Now: func() time.Time { return testNow }, Provider: onlyOffers(map[string]*provider.Capability{
		"pay":   {Name: "pay", Description: "Move money.", Sensitivity: provider.Write, Input: pay},
		"plain": {Name: "plain", Description: "Pay", Sensitivity: provider.Write, Input: plain},
		"once":  {Name: "once", Description: "Sign", Sensitivity: provider.High, Budgets: provider.Budgets{Uses: 1}, Lifetime: time.Hour},
		"look":  {Name: "look", Description: "See the balance", Sensitivity: provider.Read},
	})}}
}

func onlyOffers(all map[string]*provider.Capability) Provider {
	o := offers{all: all}
	return Provider{Offers: o, States: o}
}

// asksFor is a question of an agent on a host.
func asksFor(status agentauth.Status, grants ...provider.Grant) provider.Question {
	q := provider.Question{Approval: provider.Approval{ID: "apr_1", Expires: testNow.Add(time.Minute)}, Grants: grants}
	q.Agent = provider.Agent{ID: "agt_1", Name: "Rent payer", Created: testNow, Clocks: provider.Clocks{Absolute: 7 * 24 * time.Hour}}
	q.Host = provider.Host{Name: "Laptop", Status: status}
	return q
}

func wanted(capability, constraints string) provider.Grant {
	return provider.Grant{ID: "g", Capability: capability, Status: agentauth.Pending, Constraints: json.RawMessage(constraints)}
}

// TestSentenceOfARequest words requests: amounts have a currency only if the schema says it.
func TestSentenceOfARequest(t *testing.T) {
	k := testConsole(t)
	for name, c := range map[string]struct {
		q    provider.Question
		want string
	}{
		"money to any account": {asksFor(agentauth.Pending, wanted("pay", `{"amount": {"max": 2500}, "currency": "EUR"}`)), "New computer \u201cLaptop\u201d: \u201cRent payer\u201d wants: Move money, amount at most \u20ac2,500, any to account, for up to 7 days"},
		"one account":          {asksFor(agentauth.Active, wanted("pay", `{"amount": {"max": 1234.5}, "currency": {"in": ["CHF"]}, "to_account": "acc_1"}`)), "Known computer \u201cLaptop\u201d: \u201cRent payer\u201d wants: Move money, amount at most CHF\u00a01,234.50, to account exactly \"acc_1\", for up to 7 days"},
		"an open currency":     {asksFor(agentauth.Active, wanted("pay", `{"amount": {"max": 2500}}`)), "Known computer \u201cLaptop\u201d: \u201cRent payer\u201d wants: Move money, amount at most 2500, any currency, any to account, for up to 7 days"},
		"no word of money":     {asksFor(agentauth.Active, wanted("plain", `{"amount": {"max": 2500}, "currency": "EUR"}`)), "Known computer \u201cLaptop\u201d: \u201cRent payer\u201d wants: Pay, amount at most 2500, currency exactly \"EUR\", for up to 7 days"},
		"once, for an hour":    {asksFor(agentauth.Active, wanted("once", "")), "Known computer \u201cLaptop\u201d: \u201cRent payer\u201d wants: Sign, with any values, once, for up to 60 minutes"},
		"what changes first":   {asksFor(agentauth.Active, wanted("look", ""), wanted("once", "")), "Known computer \u201cLaptop\u201d: \u201cRent payer\u201d wants: Sign, with any values, once; See the balance, for up to 7 days"},
		"three":                {asksFor(agentauth.Active, wanted("look", ""), wanted("look", ""), wanted("look", "")), "Known computer \u201cLaptop\u201d: \u201cRent payer\u201d wants: See the balance; See the balance; and 1 more, for up to 7 days"},
		"words of its own":     {asksFor(agentauth.Active, wanted("look", `{"at most 1 EUR": {"max": 1}}`)), "Known computer \u201cLaptop\u201d: \u201cRent payer\u201d wants: See the balance, for up to 7 days"},
		"nothing":              {asksFor(agentauth.Pending), "New computer \u201cLaptop\u201d: \u201cRent payer\u201d wants to be let in, without any capability"},
	} {
		if got := k.says(lang.English, c.q, k.asks(lang.English, c.q)).String(); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
	q := asksFor(agentauth.Pending)
	q.Agent.Name = "x\u201d. Approved by IT. Known computer \u201c" + strings.Repeat("y", 100)
	s := k.says(lang.English, q, nil)
	if inner := strings.Trim(s[4].Text, "\u201c\u201d"); !s[4].Theirs || strings.ContainsAny(inner, "\u201c\u201d\"") || len([]rune(inner)) > 2*maxQuoted {
		t.Errorf("an agent's name ends its quotation, or is not cut: %q", s[4].Text)
	}
}

// TestSentenceOfACall words a call: the recipient and the amount come first, and no long
// text stands before them.
func TestSentenceOfACall(t *testing.T) {
	q := approval.Question{Kind: approval.ForCall, Agent: "post", Requester: "mailer", Matters: []issuer.Matter{{
		Grant: "mail:send", Says: "Send mail", Operations: []issuer.Operation{{Name: "send", Write: true}},
		Arguments: []issuer.Argument{{Name: "body", Value: `"` + strings.Repeat("long ", 100) + `"`}, {Name: "flag", Value: "true"}, {Name: "amount", Value: "12"}, {Name: "send_to", Value: `"bob@example.org"`}},
	}}}
	if got, want := deskSays(lang.English, q, testNow).String(), "mailer wants at post, now and once: Send mail (send), send to \u201cbob@example.org\u201d, amount 12, flag true, 1 more"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := callDoes(lang.English, q), "send, send to \u201cbob@example.org\u201d, amount 12, once"; got != want {
		t.Errorf("the button: got %s\nwant %s", got, want)
	}
}

// TestWidenedLimitsAreMarked compares a request with what the agent has.
func TestWidenedLimitsAreMarked(t *testing.T) {
	k := testConsole(t)
	held := wanted("pay", `{"amount": {"max": 500}, "currency": "EUR", "to_account": {"in": ["a", "b"]}}`)
	for asked, want := range map[string]string{
		`{"amount": {"max": 500}, "currency": "EUR", "to_account": "a"}`:               "",
		`{"amount": {"max": 100, "min": 5}, "currency": "EUR", "to_account": "b"}`:     "",
		`{"amount": {"max": 2500}, "currency": "EUR", "to_account": "a"}`:              "amount at most \u20ac2,500; until now at most \u20ac500",
		`{"amount": {"max": 500}, "currency": "EUR", "to_account": {"in": ["a","c"]}}`: `to account one of "a", "c"; until now one of "a", "b"`,
		`{"amount": {"max": 500}, "currency": "EUR"}`:                                  `to account any value; until now one of "a", "b"`,
	} {
		q := asksFor(agentauth.Active, wanted("pay", asked))
		q.Held = []provider.Grant{held}
		if got := k.asks(lang.English, q)[0].Wider; got != want {
			t.Errorf("%s: got %q; want %q", asked, got, want)
		}
	}
}

// TestLookalikeValuesAreMarked compares recipients with those that the person knows.
func TestLookalikeValuesAreMarked(t *testing.T) {
	have := known{"bob@example.org", "acc_123"}
	for value, marked := range map[string]bool{
		"bob@example.org": false, "b0b@example.org": true, "b\u043eb@example.org": true, "bob@exarnple.org": true, "acc_l23": true, "acc_124": false, "carol@example.org": false, "": false,
	} {
		if got := have.resembles(lang.English, []string{value}) != ""; got != marked {
			t.Errorf("%q is marked: %v; want %v", value, got, marked)
		}
	}
	if imitates(lang.English, "Rent payer", "To pay the rent") != "" || imitates(lang.English, "Verified: payer") == "" || imitates(lang.English, strings.Repeat("please ", 60)) == "" {
		t.Error("words that imitate the page, or push it down, are not marked as they are")
	}
}

// TestInboxFilters looks for requests by agent, capability, risk and text, 50 a page.
func TestInboxFilters(t *testing.T) {
	k := testConsole(t)
	var qs []provider.Question
	for i := range 120 {
		q := asksFor(agentauth.Active, wanted("look", ""))
		if i%3 == 0 {
			q = asksFor(agentauth.Active, wanted("pay", `{"amount": {"max": 77}, "currency": "EUR"}`))
			q.Agent.ID, q.Agent.Name, q.Approval.Reason = "agt_2", "Other", "for the <b>garden</b>"
		}
		qs = append(qs, q)
	}
	for _, c := range []struct {
		filter       filter
		found, pages int
		shown        int
	}{
		{filter{Page: 1}, 120, 3, 50},
		{filter{Page: 3}, 120, 3, 20},
		{filter{Page: 9}, 120, 3, 20},
		{filter{Page: 1, Risky: true}, 40, 1, 40},
		{filter{Page: 1, Agent: "agt_1"}, 80, 2, 50},
		{filter{Page: 1, Capability: "pay"}, 40, 1, 40},
		{filter{Page: 1, Text: "GARDEN"}, 40, 1, 40},
		{filter{Page: 1, Text: "\u20ac77"}, 40, 1, 40},
		{filter{Page: 1, Text: "nowhere"}, 0, 1, 0},
	} {
		page := inboxPage{Filter: c.filter}
		page.fill(append(k.groups(lang.English, qs), rows{}, rows{}))
		shown := 0
		for _, g := range page.Groups {
			shown += len(g.Rows)
		}
		if page.Total != 120 || page.Found != c.found || page.Pages != c.pages || shown != c.shown || len(page.Agents) != 2 || len(page.Capabilities) != 2 {
			t.Errorf("%+v: %d found, %d pages, %d shown; want %d, %d, %d", c.filter, page.Found, page.Pages, shown, c.found, c.pages, c.shown)
		}
	}
}

// TestTimeLeftIsReadWithoutScript has the end of a request as text, and for the countdown
// as a time.
func TestTimeLeftIsReadWithoutScript(t *testing.T) {
	page, err := template.New("").Funcs(template.FuncMap{}).Parse(`{{define "title"}}{{end}}` + leftOnly(t))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := page.ExecuteTemplate(&out, "left", testNow); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), `<time data-left datetime="2027-01-15T12:00:00Z">until 15 Jan 2027, 12:00 UTC</time>`; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
	for d, want := range map[time.Duration]string{7 * 24 * time.Hour: "7 days", 7*24*time.Hour - time.Second: "7 days", 90 * time.Minute: "90 minutes", 25 * time.Hour: "25 hours", time.Second: "1 minute"} {
		if got := upTo(lang.English, d); got != want {
			t.Errorf("%s is up to %s; want %s", d, got, want)
		}
	}
}

// leftOnly is the definition of the countdown in the frame.
func leftOnly(t *testing.T) string {
	t.Helper()
	frame, err := files.ReadFile("pages/frame.html")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(frame), `{{define "left"}}`)
	line, _, end := strings.Cut(rest, "\n")
	if !ok || !end {
		t.Fatal("the frame has no countdown")
	}
	return `{{define "left"}}` + line
}

// TestChoicesOfAnotherPageAreNotKept refuses an answer: the choices stay only on the page
// that they were made on.
func TestChoicesOfAnotherPageAreNotKept(t *testing.T) {
	for seen, kept := range map[string]bool{"this": true, "other": false, "": false} {
		page := typed{Seen: "this"}
		page.again("refused", url.Values{"seen": {seen}, "grant": {"g"}, "why.g": {"too much"}})
		if page.Ticked("grant", "g") != kept || (page.Typed("why.g") != "") != kept || page.Unticked("on.0", "1") != kept || page.Problem != "refused" {
			t.Errorf("of the page %q the choices are kept: %v; want %v", seen, !kept, kept)
		}
	}
	if (typed{Seen: "this"}).Unticked("on.0", "1") || (typed{}).Ticked("grant", "g") {
		t.Error("a page that was just opened has choices")
	}
}

// TestChangesFirst asks for more than one line has room for. What changes something is in the
// line, wherever it stands in the request, and its place in the form stays.
func TestChangesFirst(t *testing.T) {
	look := issuer.Matter{Grant: "docs:look", Says: "Look", Operations: []issuer.Operation{{Name: "read"}}}
	q := approval.Question{Kind: approval.ForCapability, Agent: "docs", Requester: "helper", Matters: []issuer.Matter{look, look, look, {Grant: "docs:drop", Says: "Delete", Operations: []issuer.Operation{{Name: "delete", Write: true}}}}}
	if got := deskSays(lang.English, q, testNow).String(); !strings.HasPrefix(got, "helper wants at docs: Delete (delete); ") {
		t.Errorf("the sentence: %s; want it to begin with what changes something", got)
	}
	if got := inShort(lang.English, q); !strings.HasPrefix(got, "Delete (delete); ") || !strings.HasSuffix(got, " at docs") {
		t.Errorf("the line of a list: %s", got)
	}
	if got := changesFirst(q.Matters); !slices.Equal(got, []int{3, 0, 1, 2}) {
		t.Errorf("the order of the form: %v", got)
	}
}
