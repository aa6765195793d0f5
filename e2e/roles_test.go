package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/powerbox-project/powerbox/internal/programtest"
)

// directoryOf is a provider of another hand that also says groups: its first user is in
// admins. Its clients may log in by a code, too.
type directoryOf struct{ *storage.Storage }

func (directoryOf) SetUserinfoFromRequest(_ context.Context, to *oidc.UserInfo, token op.IDTokenRequest, _ []string) error {
	to.Subject = token.GetSubject()
	if to.Subject == "id1" {
		to.AppendClaims("groups", []string{"staff", "admins"})
	}
	return nil
}

func (d directoryOf) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := d.Storage.GetClientByClientID(ctx, id)
	return codeClient{c}, err
}

type codeClient struct{ op.Client }

func (c codeClient) GrantTypes() []oidc.GrantType {
	return append(c.Client.GrantTypes(), oidc.GrantTypeDeviceCode)
}

// operatorsProvider starts the provider, with a public client for powerbox login.
func operatorsProvider(t *testing.T) string {
	t.Helper()
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	clients := map[string]*storage.Client{"powerbox-login": storage.NativeClient("powerbox-login", "http://127.0.0.1/callback")}
	handler = exampleop.SetupServer(server.URL, directoryOf{storage.NewStorageWithClients(storage.NewUserStore(server.URL), clients)}, nil, false)
	return server.URL
}

// operatorShell is one person's shell, with a folder of configuration.
type operatorShell struct {
	t            *testing.T
	home, server string
	env          []string
}

func (s *operatorShell) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.t.Context(), binary, append(args, "--server", s.server)...)
	cmd.Dir = s.t.TempDir() // no configuration of a server is here
	cmd.Env = append([]string{"HOME=" + s.home, "PATH=" + os.Getenv("PATH")}, s.env...)
	return cmd
}

// run runs a command, and returns its exit code and what it said.
func (s *operatorShell) run(args ...string) (code int, says string) {
	s.t.Helper()
	cmd := s.command(args...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// wants runs a command that must end with a code and say something.
func (s *operatorShell) wants(code int, say string, args ...string) string {
	s.t.Helper()
	got, says := s.run(args...)
	if got != code || !strings.Contains(says, say) {
		s.t.Errorf("powerbox %s: exit code %d, %s; want %d and %q", strings.Join(args, " "), got, says, code, say)
	}
	return says
}

var (
	loginURL  = regexp.MustCompile(`(?m)^  (http://\S+)$`)
	loginCode = regexp.MustCompile(`open (\S+) and enter the code (\S+)`)
)

// login begins powerbox login, and has a person answer what it prints.
func (s *operatorShell) login(printed *regexp.Regexp, person func(c *http.Client, found []string), args ...string) string {
	s.t.Helper()
	cmd := s.command(append([]string{"login", "--no-browser"}, args...)...)
	said, talk := &programtest.Log{}, &bytes.Buffer{}
	cmd.Stderr, cmd.Stdout = said, talk
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, patience, func() string { return "powerbox login prints " + said.String() }, func() bool { return printed.FindString(said.String()) != "" })
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	person(&http.Client{Jar: jar}, printed.FindStringSubmatch(said.String()))
	if err := cmd.Wait(); err != nil {
		s.t.Fatalf("powerbox login: %v\n%s%s", err, said.String(), talk.String())
	}
	return talk.String()
}

func (s *operatorShell) visit(c *http.Client, at string, form url.Values) (*http.Response, string) {
	s.t.Helper()
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, at, body)
	if err != nil {
		s.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := c.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer, string(text)
}

// byPassword logs in on the provider's page; the browser ends at the loopback address.
func (s *operatorShell) byPassword(c *http.Client, found []string) {
	s.t.Helper()
	page, _ := s.visit(c, found[1], nil)
	q, err := url.Parse(found[1])
	if err != nil {
		s.t.Fatal(err)
	}
	for name, want := range map[string]string{"response_type": "code", "code_challenge_method": "S256", "max_age": "300", "client_id": "powerbox-login"} {
		if got := q.Query().Get(name); got != want {
			s.t.Errorf("the login's %s is %q; want %q", name, got, want)
		}
	}
	if other, _ := s.visit(c, q.Query().Get("redirect_uri")+"?code=theirs&state=guessed", nil); other.StatusCode != http.StatusBadRequest {
		s.t.Errorf("the answer of another login: HTTP %d", other.StatusCode)
	}
	form := url.Values{"id": {page.Request.URL.Query().Get("authRequestID")}, "username": {"test-user@127.0.0.1"}, "password": {"verysecure"}}
	if end, text := s.visit(c, page.Request.URL.Scheme+"://"+page.Request.URL.Host+"/login/username", form); end.StatusCode != http.StatusOK || !strings.Contains(text, "Go back to the terminal") {
		s.t.Errorf("the browser ends at %s: HTTP %d %s", end.Request.URL.Path, end.StatusCode, text)
	}
}

// byUserCode enters a code on the provider's page, as its second user.
func (s *operatorShell) byUserCode(c *http.Client, found []string) {
	s.t.Helper()
	s.visit(c, found[1]+"/login", url.Values{"user_code": {found[2]}, "username": {"test-user2"}, "password": {"verysecure"}})
	if end, text := s.visit(c, found[1]+"/confirm?action=allowed", nil); !strings.Contains(text, "allowed") {
		s.t.Errorf("the code is not taken: HTTP %d %s", end.StatusCode, text)
	}
}

// session is the file of the session, and its contents.
func (s *operatorShell) session() (file string, kept map[string]any) {
	s.t.Helper()
	file = filepath.Join(s.home, ".config", "powerbox", "sessions", strings.NewReplacer("/", "_", ":", "_").Replace(strings.Replace(s.server, "://", "_", 1))+".json")
	data, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(data, &kept); err != nil {
		s.t.Fatal(err)
	}
	return file, kept
}

// TestOperatorsLogInAndActByTheirNames logs two people in from shells, at a provider of
// another hand: an administrator by group in a browser, and an operator of one agent by a
// code. The shared token is switched off.
func TestOperatorsLogInAndActByTheirNames(t *testing.T) {
	asGiven(t)
	at, idp, dir := "127.0.0.1:"+freePort(t), operatorsProvider(t), t.TempDir()
	file := filepath.Join(dir, "powerbox.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, `listen: %s
issuer: {url: "http://%s", directory: data}
identity: {providers: [{issuer: %q}]}
agents:
  - {id: documents, upstream: "http://127.0.0.1:9", tenant: acme, mode: scoped}
  - {id: mail, upstream: "http://127.0.0.1:9", mode: scoped}
operators:
  token: false
  login: {issuer: %q, client_id: powerbox-login, scopes: [offline_access]}
  roles:
    - {role: administrator, who: ["group:admins"]}
    - {role: operator, who: ["user:test-user2"], tenants: [acme]}
`, at, at, idp, idp), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &pagesBank{t: t, url: "http://" + at, log: &programtest.Log{}, dir: dir}
	b.run(exec.Command(binary, "serve", "--config", file), b.url)
	token, err := os.ReadFile(filepath.Join(dir, "data", "keys", "operator.secret"))
	if err != nil {
		t.Fatal(err)
	}
	shared := &operatorShell{t, t.TempDir(), b.url, []string{"POWERBOX_OPERATOR_TOKEN=" + strings.TrimSpace(string(token))}}
	shared.wants(1, "the shared operator token is switched off here", "mode", "mail")

	root := &operatorShell{t: t, home: t.TempDir(), server: b.url}
	root.wants(1, "run powerbox login --server "+b.url, "freeze", "agent:mail", "--reason", "odd")
	if says := root.login(loginURL, root.byPassword); !strings.Contains(says, "user:id1") || !strings.Contains(says, "administrator") {
		t.Errorf("powerbox login says %s", says)
	}
	kept, _ := root.session()
	if info, err := os.Stat(kept); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the session's file: %v, %v", info, err)
	}
	root.wants(0, "mail", "freeze", "agent:mail", "--reason", "odd")
	root.wants(0, "", "thaw", "agent:mail", "--reason", "explained")
	if says := root.wants(0, "operator.freeze", "evidence", "list", "--output", "json"); strings.Count(says, `"user:id1"`) < 2 || strings.Contains(says, `"requester":"operator"`) {
		t.Errorf("the records do not name user:id1: %s", says)
	}
	root.refreshes()

	part := &operatorShell{t: t, home: t.TempDir(), server: b.url}
	if says := part.login(loginCode, part.byUserCode, "--device"); !strings.Contains(says, "at documents: see, evidence, contents, stop, steer") {
		t.Errorf("powerbox login --device says %s", says)
	}
	part.wants(0, "documents", "freeze", "agent:documents", "--reason", "odd")
	part.wants(1, "there is no such agent or capability of yours", "freeze", "agent:mail", "--reason", "odd")
	part.wants(3, "this needs the permission administer", "config", "reload")
	part.wants(3, "at every agent, and not at some", "person", "list")
	if says := part.wants(0, "", "evidence", "list", "--output", "json"); strings.Contains(says, "mail") || !strings.Contains(says, `"requester":"user:test-user2"`) {
		t.Errorf("an operator of documents reads %s", says)
	}

	root.wants(0, "logged out", "logout")
	root.wants(1, "run powerbox login --server", "whoami")
}

// refreshes has the session end, uses it, and then keeps it from being refreshed.
func (s *operatorShell) refreshes() {
	s.t.Helper()
	put := func(change func(map[string]any)) {
		s.t.Helper()
		file, kept := s.session()
		change(kept)
		data, err := json.Marshal(kept)
		if err == nil {
			err = os.WriteFile(file, data, 0o600)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	_, before := s.session()
	put(func(m map[string]any) { m["expires"] = time.Now().Add(-time.Minute) })
	s.wants(0, "user:id1", "whoami")
	_, after := s.session()
	if before["id_token"] == after["id_token"] || before["refresh_token"] == after["refresh_token"] {
		s.t.Error("the session was not refreshed")
	}
	put(func(m map[string]any) { m["expires"], m["refresh_token"] = time.Now().Add(-time.Minute), "used" })
	s.wants(1, "has ended", "whoami")
	s.wants(1, "run powerbox login --server "+s.server, "whoami")
	put(func(m map[string]any) { m["expires"], m["refresh_token"] = after["expires"], after["refresh_token"] })
}

// TestPagesFollowRoles visits the pages as people of each role, at every agent and at one:
// the menu, the actions, and the URLs of other agents.
func TestPagesFollowRoles(t *testing.T) {
	asGiven(t)
	at, dir := "127.0.0.1:"+freePort(t), t.TempDir()
	file := filepath.Join(dir, "powerbox.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, `listen: %s
issuer: {url: "http://%s", directory: data}
identity:
  dev: [{name: vera, token: vera-token}, {name: adam, token: adam-token}, {name: odo, token: odo-token}, {name: dora, token: dora-token}, {name: root, token: root-token}, {name: anna, token: anna-token}]
agents:
  - {id: documents, upstream: "http://127.0.0.1:9", mode: scoped}
  - {id: mail, upstream: "http://127.0.0.1:9", mode: scoped}
operators:
  roles:
    - {role: viewer, who: ["user:vera"]}
    - {role: auditor, who: ["user:adam"]}
    - {role: operator, who: ["user:odo"]}
    - {role: operator, who: ["user:dora"], agents: [documents]}
    - {role: administrator, who: ["user:root"]}
`, at, at), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &pagesBank{t: t, url: "http://" + at, log: &programtest.Log{}, dir: dir}
	b.run(exec.Command(binary, "serve", "--dev", "--config", file), b.url)
	const ok, no, gone = http.StatusOK, http.StatusForbidden, http.StatusNotFound
	visitors := map[string]*visitor{}
	for _, name := range []string{"vera", "adam", "odo", "dora", "root", "anna"} {
		visitors[name] = b.visitor(name)
	}
	for _, name := range []string{"odo", "dora"} { // both are on record
		agent := map[string]string{"odo": "mail", "dora": "documents"}[name]
		if status, text := visitors[name].post("/admin/agents/"+agent+"/freeze", url.Values{"reason": {"a test"}}); status != http.StatusSeeOther {
			t.Fatalf("%s freezes %s: HTTP %d %s", name, agent, status, text)
		}
	}
	for path, want := range map[string]map[string]int{
		"/admin":                            {"vera": ok, "adam": no, "odo": ok, "dora": ok, "root": ok, "anna": no},
		"/admin/evidence":                   {"vera": ok, "adam": ok, "odo": ok, "dora": ok, "root": ok, "anna": no},
		"/admin/evidence/bundle.jsonl":      {"vera": ok, "adam": ok, "odo": ok, "dora": no, "root": ok, "anna": no},
		"/admin/live":                       {"vera": ok, "adam": ok, "dora": ok, "anna": no},
		"/admin/policy":                     {"vera": ok, "adam": no, "dora": no},
		"/admin/agents/documents":           {"vera": ok, "adam": no, "dora": ok, "anna": no},
		"/admin/agents/mail":                {"vera": ok, "adam": no, "dora": gone, "anna": no},
		"/admin/agents/nothing":             {"vera": gone, "dora": gone},
		"/admin/agents/mail/thaw":           {"vera": no, "adam": no, "odo": ok, "dora": gone, "root": ok, "anna": no},
		"/admin/agents/documents/mode":      {"vera": no, "odo": ok, "dora": ok},
		"/admin/revoke?issuer=mail":         {"vera": no, "odo": ok, "dora": gone},
		"/admin/revoke?principal=user:anna": {"vera": no, "odo": ok, "dora": no},
		"/people":                           {"vera": no, "adam": no, "odo": no, "dora": no, "root": ok, "anna": no},
		"/approve":                          {"vera": ok, "adam": ok, "anna": ok},
	} {
		for who, status := range want {
			if got, text := visitors[who].get(path); got != status {
				t.Errorf("%s opens %s: HTTP %d %s; want %d", who, path, got, text, status)
			}
		}
	}
	if status, text := visitors["dora"].post("/admin/agents/mail/freeze", url.Values{"reason": {"a test"}}); status != gone {
		t.Errorf("an operator of documents freezes mail: HTTP %d %s", status, text)
	}
	if status, text := visitors["vera"].post("/admin/agents/documents/freeze", url.Values{"reason": {"a test"}}); status != no {
		t.Errorf("a viewer freezes: HTTP %d %s", status, text)
	}
	for path, c := range map[string]struct {
		who        string
		has, hasNo []string
	}{
		"/admin":                  {"dora", []string{"documents", `href="/admin/agents"`}, []string{"mail", `href="/admin/policy"`}},
		"/admin/evidence":         {"adam", []string{`href="/admin/evidence"`, "Bundle of all evidence"}, []string{`href="/admin/agents"`, `href="/people"`}},
		"/admin/evidence?":        {"dora", []string{"user:dora"}, []string{"mail", "user:odo", "Bundle of all evidence"}},
		"/admin/agents/documents": {"vera", []string{"frozen"}, []string{"Thaw", "Change mode", "Revoke everything"}},
		"/admin/agents/mail":      {"odo", []string{"Thaw", "Change mode", "Revoke everything"}, []string{`href="/people"`}},
		"/approve":                {"anna", []string{`href="/approve"`}, []string{`href="/admin`}},
		"/admin/settings":         {"root", []string{`href="/people"`}, nil},
	} {
		_, text := visitors[c.who].get(path)
		for _, want := range c.has {
			if !strings.Contains(text, want) {
				t.Errorf("%s at %s does not see %q: %s", c.who, path, want, text)
			}
		}
		for _, never := range c.hasNo {
			if strings.Contains(text, never) {
				t.Errorf("%s at %s sees %q: %s", c.who, path, never, text)
			}
		}
	}
	for who, want := range map[string]string{"vera": "/admin", "adam": "/admin/live", "anna": "/approve"} {
		if _, to := visitors[who].get("/"); !strings.HasPrefix(to, want) {
			t.Errorf("%s begins at %s; want %s", who, to, want)
		}
	}
}
