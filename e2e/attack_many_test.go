package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/powerbox-project/powerbox/internal/identity/oidctest"
)

// TestATK134_SearchesTellNothingOfHowManyRecordsOthersHave has an auditor of one agent search the
// records before and after other agents have more than one page looks at. Every answer stays the same.
func TestATK134_SearchesTellNothingOfHowManyRecordsOthersHave(t *testing.T) {
	l := newLogin(t)
	w := &town{t: t, dir: t.TempDir()}
	port := freePort(t)
	w.url = "http://127.0.0.1:" + port
	w.write("guard.token", guardToken+"\n")
	w.write("other.token", strings.ToUpper(guardToken))
	w.write("keys.json", l.jwks(t))
	w.write("policies.cedar", certificationPolicies)
	w.write("powerbox.yaml", strings.Replace(fmt.Sprintf(guardedConfiguration, port, w.url, aliceToken, "require"), "identity:\n",
		"operators:\n  login: {issuer: \"https://login.example.org\", client_id: powerbox-login}\n  roles:\n    - {role: auditor, who: [\"user:auditor\"], agents: [files, records]}\n"+
			"identity:\n  providers: [{issuer: \"https://login.example.org\", jwks_file: keys.json}]\n", 1))
	w.migrate()
	w.boot()
	now := time.Now()
	p := &tenants{town: w, tokens: map[string]string{"auditor": oidctest.Sign(t, jose.ES256, l.key, map[jose.HeaderKey]any{"kid": "one"}, map[string]any{
		"iss": "https://login.example.org", "aud": "powerbox-login", "sub": "auditor", "iat": now.Unix(), "auth_time": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	})}}
	w.asks("evaluation", guardToken, attempt("triage", "files", "read_file", ""))
	searches := []string{"", "agent=files", "agent=refunds", "agent=nosuch", "requester=triage", "requester=refunds", "requester=triage&agent=files", "requester=triage&agent=refunds", "decision=ALLOW", "decision=DENY", "operation=refunds/refund/look"}
	said := func() map[string]string {
		all := map[string]string{}
		for _, q := range searches {
			all[q] = p.said("auditor", http.MethodGet, "/v1/records?"+q, "")
		}
		return all
	}
	before := said()
	if !strings.Contains(before[""], "files/files/read") || strings.Contains(before["agent=refunds"], "rec_") {
		t.Fatalf("the records before: %q", before)
	}
	const batch, batches = 100, 210
	body := `{"evaluations":[` + strings.TrimSuffix(strings.Repeat(attempt("triage", "refunds", "look_up", "")+",", batch), ",") + `]}`
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for range batches / 10 {
				if a := w.asks("evaluations", guardToken, body); a.status != http.StatusOK {
					t.Errorf("evaluations: %d %s", a.status, a.raw)
				}
			}
		})
	}
	all.Wait()
	w.soon("the index to have the records", func() bool {
		return p.said("auditor", http.MethodGet, "/v1/records?agent=files", "") == before["agent=files"]
	})
	after := said()
	for _, q := range searches {
		if after[q] != before[q] {
			t.Errorf("the search %q tells of the records of others: %s\nbefore: %s", q, after[q], before[q])
		}
	}
}
