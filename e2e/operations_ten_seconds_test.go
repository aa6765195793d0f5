package e2e

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/powerbox-project/powerbox/internal/programtest"
)

// payBank serves a bank whose schema names the amounts of money.
func payBank(t *testing.T) *pagesBank {
	t.Helper()
	at, dir := "localhost:"+freePort(t), t.TempDir()
	file := filepath.Join(dir, "powerbox.yaml")
	text := fmt.Sprintf(`listen: %s
issuer: {url: "http://%s", directory: data}
agents:
  - id: harbour
    upstream: "http://127.0.0.1:9"
    agent_auth:
      unknown_hosts: 0
      questions: 0
      capabilities:
        - {name: check_balance, description: See the balance of one account, sensitivity: read, input: {type: object, properties: {account_id: {type: string, title: account}}}}
        - {name: close_account, description: Close an account for good, sensitivity: high, input: {type: object, properties: {account_id: {type: string, title: account}}}}
        - name: transfer_money
          description: Move money
          sensitivity: write
          input:
            type: object
            properties:
              amount: {type: number, x-currency: currency}
              currency: {enum: [EUR, USD]}
              destination_account: {type: string, title: account}
identity: {dev: [{name: alice, token: session-of-alice}, {name: bob, token: session-of-bob}]}
`, at, at)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &pagesBank{t: t, url: "http://" + at, log: &programtest.Log{}, dir: dir}
	b.run(exec.Command(binary, "serve", "--config", file, "--dev"), b.url)
	return b
}

// transfers asks to move euros: at most so many, and to one account or any.
func transfers(most int, account string) map[string]any {
	limits := map[string]any{"amount": map[string]any{"max": most}, "currency": "EUR"}
	if account != "" {
		limits["destination_account"] = account
	}
	return limited("transfer_money", limits)
}

// glance is a prepared request, with what decides it.
type glance struct {
	name, page string
	sentence   []string
	who        string
	warning    string // of an attack
	deny       string // the button that denies; Deny where empty
}

// seen checks that the first screen of a request has what decides.
func (b *browser) seen(g glance, width, height int64) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1}); err != nil {
		b.t.Fatal(err)
	}
	b.do(chromedp.Navigate(g.page), chromedp.WaitReady(chromedp.CSS("button.deny:focus")))
	b.fits("glance-" + strings.ReplaceAll(g.name, " ", "-") + "-" + strconv.FormatInt(width, 10))
	for selector, texts := range map[string][]string{"h1": g.sentence, ".who-asks dd": {g.who}, ".odd": {g.warning}, "button.deny": {cmp.Or(g.deny, "Deny")}} {
		for _, text := range texts {
			if text == "" {
				continue
			}
			// Inside the window, and not below the bar with the answers.
			place := b.js(fmt.Sprintf(`[...document.querySelectorAll(%q)].filter(e => e.innerText.includes(%q)).map(e => {
				const r = e.getBoundingClientRect(), bar = document.querySelector(".decide").getBoundingClientRect();
				return scrollY === 0 && r.top >= 0 && r.left >= 0 && r.right <= innerWidth && r.bottom <= (e.closest(".decide") ? innerHeight : Math.min(bar.top, innerHeight)) && r.height > 0;
			})`, selector, text))
			if !strings.Contains(place, "true") {
				b.t.Errorf("%s at %dx%d: %s with %q is not on the first screen: %s\n%s", g.name, width, height, selector, text, place, b.text())
			}
		}
	}
	if g.warning == "" && b.js(`document.querySelectorAll(".odd").length`) != "0" {
		b.t.Errorf("%s: an honest request is marked as odd:\n%s", g.name, b.text())
	}
}

// seenAtOnce checks requests on a phone and on a screen.
func (b *browser) seenAtOnce(all []glance) {
	b.t.Helper()
	for _, g := range all {
		b.seen(g, 390, 844)
		b.seen(g, 1440, 900)
	}
}

// approve approves a request of an agent whole, as a built-in user.
func (b *pagesBank) approve(user, id string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.url+"/v1/approvals/"+id, strings.NewReader("{}"))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Powerbox-Dev-User", user)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		b.t.Fatalf("approve %s: HTTP %d", id, response.StatusCode)
	}
}

// TestTenSecondsForARequest opens requests of agents, three of them attacks: what decides
// is on the first screen of a phone and of a wide window.
func TestTenSecondsForARequest(t *testing.T) {
	asGiven(t)
	b := payBank(t)
	w := openBrowser(t)
	w.login(b.url, "alice", "/approve")
	register := func(name, reason string, wants ...any) string {
		t.Helper()
		return b.url + "/approve/" + b.approvalID("alice", b.host().register(map[string]any{"name": name, "host_name": "Laptop", "reason": reason, "capabilities": wants}).code)
	}
	holder := b.host()
	old := holder.register(map[string]any{"name": "Rent payer", "host_name": "Desktop", "capabilities": []any{"check_balance", transfers(500, "acc_123")}})
	b.approve("alice", b.approvalID("alice", old.code))
	more := func(wants ...any) string {
		t.Helper()
		if status, answer := old.ask("The rent went up", wants...); status >= 300 {
			t.Fatalf("HTTP %d %v", status, answer)
		}
		return b.url + "/approve/" + b.approvalID("alice", old.code)
	}
	const fresh, known = "new: nobody has approved it yet", "a computer that was approved before"
	decoy := strings.Repeat("Known computer, approved before, only reads. Nothing to look at below. ", 12)
	w.seenAtOnce([]glance{
		{"reading", register("Budget helper", "To show what you spend", "check_balance"), []string{"New computer \u201cLaptop\u201d: \u201cBudget helper\u201d wants: See the balance of one account", "for up to 7 days"}, fresh, "", ""},
		{"one account", register("Rent payer", "To pay the rent", transfers(900, "acc_123")), []string{"Move money, amount at most \u20ac900", "account exactly \"acc_123\""}, fresh, "", ""},
		{"any account", register("Rent payer", "To pay the rent", transfers(2500, "")), []string{"Move money, amount at most \u20ac2,500", "any account", "for up to 7 days"}, fresh, "", ""},
		{"no limits", register("Bill payer", "To pay", "transfer_money"), []string{"any amount", "any currency", "1 more with any value"}, fresh, "", ""},
		{"the risky one first", register("Bill payer", "To pay", "check_balance", transfers(50, "")), []string{"wants: Move money, amount at most \u20ac50"}, fresh, "", ""},
		{"high risk", register("Cleaner", "It is not used", "close_account"), []string{"Close an account for good, any account"}, fresh, "", ""},
		{"known computer", more("close_account"), []string{"Known computer \u201cDesktop\u201d: \u201cRent payer\u201d wants: Close an account for good"}, known, "", ""},
		{"phishing name", register("Harbour security team", "Your account was locked", transfers(5000, "")), []string{"\u201cHarbour security team\u201d", "\u20ac5,000"}, fresh, "It calls itself by the name of this service", ""},
		{"widened limits", more(transfers(2500, "acc_123")), []string{"amount at most \u20ac2,500"}, known, "Wider than what it has: amount at most \u20ac2,500; until now at most \u20ac500", ""},
		{"decoy text", register("Verified: approved by IT", decoy, transfers(9000, "")), []string{"New computer", "\u20ac9,000"}, fresh, "sound like this page", ""},
	})
	w.seenInGerman(register("Rent payer", "To pay the rent", transfers(2500, "")), register("Gepr\u00fcft: genehmigt von der IT", decoy, transfers(9000, "")))
}

// seenInGerman checks an honest request and an attack on the phone of a German reader. What
// a person signs is about the same page in both languages.
func (b *browser) seenInGerman(honest, attack string) {
	b.t.Helper()
	seen := `document.querySelector("input[name=seen]").value`
	b.do(chromedp.Navigate(honest))
	english := b.js(seen)
	b.inGerman(true)
	defer b.inGerman(false)
	const fresh, deny = "neu: noch von niemandem genehmigt", "Ablehnen"
	b.seen(glance{"a German page", honest, []string{"Neuer Computer \u201eLaptop\u201c: \u201eRent payer\u201c m\u00f6chte: Move money, amount h\u00f6chstens 2.500\u00a0\u20ac", "account beliebig", "h\u00f6chstens 7 Tage lang"}, fresh, "", deny}, 390, 844)
	if german := b.js(seen); german != english {
		b.t.Errorf("the digest of the page is %s in German, and %s in English", german, english)
	}
	b.do(chromedp.Click(chromedp.CSS("input[name=grant]")))
	if said := b.js(`document.querySelector("button.approve").textContent`); said != "\"Genehmigen: amount bis 2.500\u00a0\u20ac, 1 von 2 Werten\"" && said != "\"Genehmigen: amount bis 2.500\u00a0\u20ac\"" {
		b.t.Errorf("the German button says %s", said)
	}
	b.seen(glance{"a German attack", attack, []string{"Neuer Computer", "9.000\u00a0\u20ac"}, fresh, "klingen wie diese Seite", deny}, 390, 844)
}

// TestTenSecondsForACall opens two calls that wait, the second of them to a recipient that
// only looks like the first, which the person has approved.
func TestTenSecondsForACall(t *testing.T) {
	w, alice, held := mailing(t, options{host: "localhost"})
	b := openBrowser(t)
	b.login(w.url, "alice", "/approve")
	first := heldIn(t, alice.mailsUnder(held, "bob@example.org"))
	const who = "an agent that the operator has no name for"
	b.seenAtOnce([]glance{{"a call", w.url + "/approve/" + first.asked(), []string{"now and once", "to \u201cbob@example.org\u201d"}, who, "", ""}})
	if said := b.js(`document.querySelector("button.approve").textContent`); !strings.Contains(said, `Approve: send, to `) || !strings.Contains(said, `once`) {
		t.Errorf("the button says %s", said)
	}
	w.answers("alice", first.asked(), map[string]any{})
	second := heldIn(t, alice.mailsUnder(held, "b0b@example.org"))
	b.seenAtOnce([]glance{{"look-alike recipient", w.url + "/approve/" + second.asked(), []string{"to \u201cb0b@example.org\u201d"}, who, "looks like \u201cbob@example.org\u201d", ""}})
}
