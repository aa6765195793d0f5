package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// liveSource is a system that has the resources of a collection, as its stand-in answers.
type liveSource struct {
	settings string            // under source, with the stand-in's URL
	files    map[string]string // that they name
	// answers answers a page for alice: of two ids each, without a page for other users.
	answers func(w http.ResponseWriter, r *http.Request, body string)
	asks    string // text of every question about alice
}

// sourceSecret is what each system wants to see.
const sourceSecret = "the-secret-of-the-source"

// liveSources are all kinds but sql. Each has three reports for alice: q1, q2, which policy
// hides, and q3.
func liveSources() map[string]liveSource {
	page := func(body, cursor, first, second string) string {
		if strings.Contains(body, cursor) {
			return second
		}
		return first
	}
	return map[string]liveSource{
		"openfga": {
			settings: `openfga: {url: "%s", store: s1, type: report, credential: {file: source.secret}}`, asks: `"user":"user:alice"`,
			answers: func(w http.ResponseWriter, _ *http.Request, _ string) {
				_, _ = io.WriteString(w, `{"objects":["report:q3","report:q1","report:q2"]}`)
			},
		},
		"spicedb": {
			settings: `spicedb: {url: "%s", type: report, page: 2, credential: {file: source.secret}}`, asks: `"objectId":"alice"`,
			answers: func(w http.ResponseWriter, _ *http.Request, body string) {
				line := func(id string) string {
					return `{"result":{"resourceObjectId":"` + id + `","permissionship":"LOOKUP_PERMISSIONSHIP_HAS_PERMISSION","afterResultCursor":{"token":"after-` + id + `"}}}` + "\n"
				}
				_, _ = io.WriteString(w, page(body, "after-q2", line("q1")+line("q2"), line("q3")))
			},
		},
		"authzen": {
			settings: `authzen: {url: "%s/access/v1/search/resource", type: report, page: 2, credential: {file: source.secret}}`, asks: `"id":"alice"`,
			answers: func(w http.ResponseWriter, _ *http.Request, body string) {
				one := func(id string) string { return `{"type":"report","id":"` + id + `"}` }
				_, _ = io.WriteString(w, page(body, "second", `{"page":{"next_token":"second"},"results":[`+one("q1")+`,`+one("q2")+`]}`, `{"results":[`+one("q3")+`]}`))
			},
		},
		"openapi": {
			settings: `openapi: {document: reports.yaml, url: "%s", operation: listReports, principal: user, cursor: page, items: /reports, next: /next, credential: {file: source.secret}}`,
			asks:     "user=user%3Aalice",
			files: map[string]string{"reports.yaml": `openapi: 3.1.0
info: {title: Reports, version: "1"}
paths:
  /reports:
    get:
      operationId: listReports
      parameters:
        - {name: user, in: query, required: true, schema: {type: string}}
        - {name: page, in: query, schema: {type: string}}
`},
			answers: func(w http.ResponseWriter, r *http.Request, _ string) {
				_, _ = io.WriteString(w, page(r.URL.RawQuery, "page=2", `{"reports":[{"id":"q1"},{"id":"q2"}],"next":2}`, `{"reports":[{"id":"q3"}]}`))
			},
		},
		"mcp": {
			settings: `mcp: {url: "%s", user_header: X-User, credential: {file: source.secret}}`, asks: "user:alice",
			answers: reportServer().answer,
		},
	}
}

// reportsServer is an MCP server on the SDK.
type reportsServer struct{ handler http.Handler }

func reportServer() reportsServer {
	server := mcp.NewServer(&mcp.Implementation{Name: "reports", Version: "1"}, &mcp.ServerOptions{PageSize: 2})
	for _, id := range []string{"q1", "q2", "q3"} {
		server.AddResource(&mcp.Resource{URI: "urn:" + id, Name: id}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{}, nil
		})
	}
	return reportsServer{mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})}
}

// answer answers a request whose body was read.
func (s reportsServer) answer(w http.ResponseWriter, r *http.Request, body string) {
	r.Body = io.NopCloser(strings.NewReader(body))
	s.handler.ServeHTTP(w, r)
}

// TestATK112_ResourceQueryOverOtherSources has the running program ask every kind of source
// but PostgreSQL: for the user, with its credential, page by page. Policy decides about what
// they propose, a handle is used, and a source that is gone gives nothing.
func TestATK112_ResourceQueryOverOtherSources(t *testing.T) {
	for kind, source := range liveSources() {
		t.Run(kind, func(t *testing.T) {
			var mu sync.Mutex
			var asked []string
			system := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				asked = append(asked, r.URL.RawQuery+" "+r.Header.Get("X-User")+" "+string(body))
				mu.Unlock()
				if r.Header.Get("Authorization") != "Bearer "+sourceSecret {
					http.Error(w, "who is it", http.StatusUnauthorized)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				source.answers(w, r, string(body))
			}))
			t.Cleanup(system.Close)
			prefix := ""
			if kind == "mcp" {
				prefix = "urn:"
			}
			hidden := fmt.Sprintf(`documents/files/f/%sq2`, prefix)
			o := options{
				live:     "    live:\n      - {collection: files, prefix: f/, action: viewer, timeout: 5s, cache: 1ms, source: {" + fmt.Sprintf(source.settings, system.URL) + "}}\n",
				policies: defaultPolicies + `permit(principal == User::"user:alice", action in Action::"documents/documents:read", resource in Collection::"documents/files") unless { resource == Resource::"` + hidden + `" };`,
				files:    map[string]string{"source.secret": sourceSecret + "\n"},
			}
			for name, text := range source.files {
				o.files[name] = text
			}
			w := start(t, o)
			alice, bob := w.caller(aliceToken), w.caller(bobToken)

			c := capabilities(t, alice.call("documents", "a2a/capabilities/request", wanting(map[string]any{"collection": "files"})))[0]
			if len(c.ResourceHandles) != 2 {
				t.Fatalf("the query selects %+v; want q1 and q3\n%s", c.ResourceHandles, w.log)
			}
			mu.Lock()
			questions := slices.Clone(asked)
			mu.Unlock()
			if len(questions) == 0 || slices.ContainsFunc(questions, func(q string) bool { return !strings.Contains(q, source.asks) }) {
				t.Errorf("the source is asked %q; want %s in each", questions, source.asks)
			}
			// The agent behind is told the resource, and never the caller.
			for n, want := range []string{"f/" + prefix + "q1", "f/" + prefix + "q3"} {
				handle := c.ResourceHandles[n].Handle
				allowed(t, alice.send("documents", invoke("retrieve_document", map[string]any{"resourceHandle": handle}, c.ID)))
				got := w.documents.got()
				if told := payload(t, got[len(got)-1].header.Get("Powerbox-Context")); !strings.Contains(told, jsonOf(t, want)) {
					t.Errorf("the agent is told %s; want %s", told, want)
				}
			}
			denied(t, bob.call("documents", "a2a/capabilities/request", wanting(map[string]any{"collection": "files"})), "nothing_granted")

			system.Close()
			a := alice.call("documents", "a2a/capabilities/request", wanting(map[string]any{"collection": "files"}))
			denied(t, a, "resources_unavailable")
			if said := string(a.Raw); strings.Contains(said, system.URL) || strings.Contains(said, sourceSecret) || !json.Valid(a.Raw) {
				t.Errorf("the answer is %s", said)
			}
			alice.reports() // the catalogue needs no source
		})
	}
}
