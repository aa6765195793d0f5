package e2e

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// carry makes a request that must have an answer, and returns it.
func (w *town) carry(c *http.Client, method, path, body string, header http.Header) reply {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = header
	r, err := c.Do(req)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer r.Body.Close()
	said, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return reply{Status: r.StatusCode, Header: r.Header, Raw: string(said)}
}

// late checks that a request was refused because the store hangs.
func (w *town) late(what string, r reply) {
	w.t.Helper()
	if r.Status != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" || !strings.Contains(r.Raw, "may still take effect") {
		w.t.Errorf("ATK-86 %s: %d %v %s", what, r.Status, r.Header, r.Raw)
	}
}

// Every entrance of people, operators and agents of Agent Auth answers while the disk
// hangs. The answer of a person that was not confirmed takes effect when the disk works.
func TestATK86_EveryEntranceOnADiskThatHangs(t *testing.T) {
	aboutTheFile(t)
	b := newBank(t, bankOptions{})
	b.with(aSecond)
	d := b.onDisk()
	m := b.active("alice", "check_balance")
	_, first := b.register(newOKP(t), map[string]any{"capabilities": []any{"list_accounts"}})
	asked, _ := b.register(newOKP(t), map[string]any{"capabilities": []any{"list_accounts"}})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	alice := &visitor{t, b.url, &http.Client{Jar: jar, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, http.Header{"Sec-Fetch-Site": {"same-origin"}}}
	if status, text := alice.post("/login", url.Values{"user": {"alice"}}); status != http.StatusSeeOther {
		t.Fatalf("login: %d %s", status, text)
	}
	at := alice.open(asked.code)
	form := alice.approval(at)
	file := filepath.Join(b.dir, "powerbox.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b.write("powerbox.yaml", strings.Replace(string(text), "agents:\n", "agents:\n  - {id: another, upstream: \"http://127.0.0.1:1\", mode: require}\n", 1))
	operator := http.Header{"Authorization": {"Bearer " + b.operatorToken()}}
	pages := http.Header{"Sec-Fetch-Site": {"same-origin"}, "Content-Type": {"application/x-www-form-urlencoded"}}
	asAlice := http.Header{"Powerbox-Dev-User": {"alice"}}
	host := newOKP(t)
	d.hold()
	defer d.release()
	for _, c := range []struct {
		what, method, path, body string
		header                   http.Header
		client                   *http.Client
	}{
		{"a person's answer on the page", http.MethodPost, at, form.Encode(), pages, alice.http},
		{"a person's answer by a program", http.MethodPost, "/v1/approvals/" + codeOf(first), "{}", asAlice, b.client},
		{"a registration", http.MethodPost, "/agent/register", `{"name":"Late","capabilities":["list_accounts"]}`, http.Header{"Authorization": {"Bearer " + b.host(host, map[string]any{"agent_public_key": newOKP(t).jwk})}}, b.client},
		{"an erasure", http.MethodPost, "/v1/evidence/erasures", `{"agent":"bank","until":"2100-01-01T00:00:00Z"}`, operator, b.client},
		{"a reload", http.MethodPost, "/v1/config/reload", "{}", operator, b.client},
		{"a second reload, which waits for the first", http.MethodPost, "/v1/config/reload", "{}", operator, b.client},
	} {
		b.late(c.what, b.carry(c.client, c.method, c.path, c.body, c.header))
	}
	execution := http.Header{"Authorization": {"Bearer " + m.token(b.url+"/capability/execute")}}
	if r := b.carry(b.client, http.MethodPost, "/capability/execute", `{"capability":"check_balance","arguments":{"account_id":"a"}}`, execution); r.Status != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" || b.did("check_balance") != 0 {
		t.Errorf("ATK-86 an execution: %d %v %s", r.Status, r.Header, r.Raw)
	}
	d.release()
	eventually(t, stepTime, func() string {
		return "ATK-86 an approval that was answered late is not in force: " + asked.state().Raw
	}, func() bool {
		return asked.state().text("status") == "active"
	})
}

// Readers of the log are locked out in PostgreSQL: reads of operators and of people are
// refused in time, too.
func TestATK86_ReadsOfALogThatIsLocked(t *testing.T) {
	asGiven(t)
	database := databases.Database(t)
	b := newBank(t, bankOptions{database: database})
	b.with(aSecond)
	b.client = &http.Client{Timeout: time.Minute}
	locker, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locker.Close(t.Context()) }()
	if _, err := locker.Exec(t.Context(), "BEGIN; LOCK TABLE log IN ACCESS EXCLUSIVE MODE", pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	operator := http.Header{"Authorization": {"Bearer " + b.operatorToken()}}
	for _, c := range []struct {
		what, method, path, body string
		header                   http.Header
	}{
		{"a replay of policies", http.MethodPost, "/v1/policies/replay", `{"files":{}}`, operator},
		{"an erasure", http.MethodPost, "/v1/evidence/erasures", `{"agent":"bank","until":"2100-01-01T00:00:00Z"}`, operator},
		{"records", http.MethodGet, "/v1/records", "", operator},
		{"the activity of a person", http.MethodGet, "/v1/activity", "", http.Header{"Powerbox-Dev-User": {"alice"}}},
	} {
		if r := b.carry(b.client, c.method, c.path, c.body, c.header); r.Status != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
			t.Errorf("ATK-86 %s: %d %v %s", c.what, r.Status, r.Header, r.Raw)
		}
	}
	if _, err := locker.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if r := b.carry(b.client, http.MethodPost, "/v1/policies/replay", `{"files":{}}`, operator); r.Status != http.StatusOK {
		t.Errorf("ATK-86 a replay of policies afterwards: %d %s", r.Status, r.Raw)
	}
}
