package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// frameworkConfiguration has the tools of the cases, and the three agents of every
// adapter.
const frameworkConfiguration = `listen: 127.0.0.1:%[1]s
issuer: {url: "%[2]s"}
identity:
  dev: [{name: carol, token: carol-session-token}]
  guards: [%[3]s]
defaults: {mode: scoped}
limits: {denials: 0}
approvals: {rules: [{agent: tools, approvers: ["user:carol"]}]}
agents:
  - {id: tools, protocol: local}
  - {id: stranger, protocol: local, required: [work/do]}
%[4]soffers:
  tools:
    - {id: fs, operations: [read, delete, watch, fail]}
    - {id: mail, operations: [send]}
    - {id: refund, operations: [pay]}
    - {id: limit, operations: [set, rate, count]}
    - {id: label, operations: [tag, title]}
  stranger: [{id: work, operations: [do]}]
%[5]sskills:
  tools:
    - {skill: read_file, grant: fs, operation: read, effect: read, arguments: {path: {constraint_type: path, root: /docs}}}
    - {skill: delete_file, grant: fs, operation: delete}
    - {skill: watch, grant: fs, operation: watch, effect: read}
    - {skill: fails, grant: fs, operation: fail}
    - {skill: send, grant: mail, operation: send}
    - {skill: pay, grant: refund, operation: pay, approval: true}
    - {skill: set_limit, grant: limit, operation: set, arguments: {amount: {constraint_type: range, min: 0, max: 9007199254740992}}}
    - {skill: set_rate, grant: limit, operation: rate, arguments: {amount: {constraint_type: range, min: 0, max: 0.1}}}
    - {skill: count, grant: limit, operation: count}
    - {skill: tag, grant: label, operation: tag}
    - {skill: title, grant: label, operation: title, arguments: {title: {constraint_type: exact, value: "é"}}}
  stranger: [{skill: work, grant: work, operation: do}]
%[6]sscopes:
%[7]s`

const frameworkLead = "fs/read, fs/watch, fs/fail, mail/send, refund/pay, limit/set, limit/rate, limit/count, label/tag, label/title"

func frameworkToken(adapter string) string { return guardToken + "-" + adapter }

// frameworkTown is one server for all adapters. Each is a guard with its own agents:
// a freeze, question or approval of one does not count for another.
func frameworkTown(t *testing.T, adapters []string) *town {
	t.Helper()
	w := &town{t: t, dir: t.TempDir()}
	port := freePort(t)
	w.url = "http://127.0.0.1:" + port
	var guards []string
	var agents, offers, skills, scopes strings.Builder
	for _, a := range adapters {
		w.write(a+".token", frameworkToken(a))
		guards = append(guards, fmt.Sprintf("{name: %[1]s, token_file: %[1]s.token, agents: [%[1]s-lead, %[1]s-helper, %[1]s-spare]}", a))
		fmt.Fprintf(&agents, "  - {id: %[1]s-lead, protocol: local}\n  - {id: %[1]s-spare, protocol: local}\n  - {id: %[1]s-helper, protocol: local, required: [work/do]}\n", a)
		fmt.Fprintf(&offers, "  %s-helper: [{id: work, operations: [do]}]\n", a)
		fmt.Fprintf(&skills, "  %s-helper: [{skill: work, grant: work, operation: do}]\n", a)
		fmt.Fprintf(&scopes, "  %[1]s-lead: {tools: [%[2]s], %[1]s-helper: [work/do]}\n  %[1]s-spare: {tools: [%[2]s]}\n  %[1]s-helper: {tools: [fs/read]}\n", a, frameworkLead)
	}
	w.write("powerbox.yaml", fmt.Sprintf(frameworkConfiguration, port, w.url, strings.Join(guards, ", "), agents.String(), offers.String(), skills.String(), scopes.String()))
	w.migrate()
	w.boot()
	return w
}

// badGates are servers that give no valid answer, by the word of the cases. followed
// counts requests that came by a redirect.
func badGates(t *testing.T) (urls map[string]string, followed *atomic.Int64) {
	t.Helper()
	followed = &atomic.Int64{}
	yes := `{"decision":true,"context":{"id":"rec_x"}}`
	says := func(status int, header, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			code := status
			if r.URL.Path == "/elsewhere" {
				followed.Add(1)
				code = http.StatusOK
			}
			if header != "" {
				rw.Header().Set("Location", header)
			}
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(code)
			_, _ = io.WriteString(rw, body) // the client may be gone
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never reads
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	return map[string]string{
		"down": "http://127.0.0.1:9", "silent": "http://" + silent.Addr().String(),
		"redirect": says(http.StatusTemporaryRedirect, "/elsewhere", yes), "error": says(http.StatusInternalServerError, "", yes),
		"text": says(http.StatusOK, "", `{"decision":"true","context":{"id":"rec_x"}}`),
	}, followed
}
