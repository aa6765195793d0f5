package sources_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/sources"
	"github.com/powerbox-project/powerbox/internal/wire/openapi"
)

// sameJSON reports whether two texts are the same JSON.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return bytes.Equal(p, q)
}

// LookupResources pages by the cursor of its last result, and a result under a condition
// is none.
func TestSpiceDBPages(t *testing.T) {
	pages := map[string]string{
		`{"consistency":{"fullyConsistent":true},"resourceObjectType":"report","permission":"viewer","subject":{"object":{"objectType":"user","objectId":"alice"}},"optionalLimit":2}`: `{"result":{"lookedUpAt":{"token":"z"},"resourceObjectId":"q1","permissionship":"LOOKUP_PERMISSIONSHIP_HAS_PERMISSION","afterResultCursor":{"token":"c1"}}}
{"result":{"resourceObjectId":"maybe","permissionship":"LOOKUP_PERMISSIONSHIP_CONDITIONAL_PERMISSION","partialCaveatInfo":{"missingRequiredContext":["ip"]},"afterResultCursor":{"token":"c2"}}}
`,
		`{"consistency":{"fullyConsistent":true},"resourceObjectType":"report","permission":"viewer","subject":{"object":{"objectType":"user","objectId":"alice"}},"optionalLimit":2,"optionalCursor":{"token":"c2"}}`: `{"result":{"resourceObjectId":"q2","permissionship":"LOOKUP_PERMISSIONSHIP_HAS_PERMISSION","afterResultCursor":{"token":"c3"}}}`,
	}
	url := standIn(t, func(w http.ResponseWriter, r *http.Request, body string) {
		for asked, answer := range pages {
			if r.URL.Path == "/v1/permissions/resources" && sameJSON(t, asked, body) {
				_, _ = io.WriteString(w, answer)
				return
			}
		}
		t.Errorf("%s %s is asked", r.URL, body)
		w.WriteHeader(http.StatusBadRequest)
	})
	s := sources.SpiceDB{Client: client(), URL: url, Type: "report", Size: 2}
	if got := all(t, guarded(s, t.Output()), question(t, "user:alice", "{}")); !slices.Equal(got, []string{"q1", "q2"}) {
		t.Errorf("alice sees %q", got)
	}
	broken := standIn(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = io.WriteString(w, `{"result":{"resourceObjectId":"q1","permissionship":"LOOKUP_PERMISSIONSHIP_HAS_PERMISSION","afterResultCursor":{"token":"c1"}}}`+"\n"+`{"error":{"code":14,"message":"secret"}}`)
	})
	failsClosed(t, sources.SpiceDB{Client: client(), URL: broken, Type: "report", Size: 2}, question(t, "user:alice", "{}"), "secret")
}

// A search of the Authorization API is asked page by page, and properties are attributes.
func TestAuthZENPages(t *testing.T) {
	asked := []string{}
	url := standIn(t, func(w http.ResponseWriter, _ *http.Request, body string) {
		asked = append(asked, body)
		if len(asked) == 1 {
			_, _ = io.WriteString(w, `{"page":{"next_token":"t2","count":1},"results":[{"type":"report","id":"q1","properties":{"name":"Quarter 1","quarter":"2025-Q1","year":2025,"tags":["a"],"other":{}}}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"results":[{"type":"report","id":"q2","properties":{"quarter":"2025-Q2"}},{"type":"report","id":"q3"}]}`)
	})
	s := sources.AuthZEN{Client: client(), URL: url, Type: "report", Size: 10}
	if got := all(t, guarded(s, t.Output()), question(t, "user:alice", `{"quarter":{"in":["2025-Q1","2025-Q2"]}}`)); !slices.Equal(got, []string{"q1", "q2"}) {
		t.Errorf("alice sees %q", got)
	}
	want := []string{
		`{"subject":{"type":"user","id":"alice"},"action":{"name":"viewer"},"resource":{"type":"report"},"page":{"limit":10}}`,
		`{"subject":{"type":"user","id":"alice"},"action":{"name":"viewer"},"resource":{"type":"report"},"page":{"token":"t2","limit":10}}`,
	}
	if len(asked) != 2 || !sameJSON(t, asked[0], want[0]) || !sameJSON(t, asked[1], want[1]) {
		t.Errorf("asked %s", asked)
	}
}

const reportsAPI = `openapi: 3.1.0
info: {title: Reports, version: "1"}
paths:
  /users/{user}/reports:
    get:
      operationId: listReports
      parameters:
        - {name: user, in: path, required: true, schema: {type: string}}
        - {name: page_token, in: query, schema: {type: string}}
  /reports:
    post:
      operationId: addReport
      requestBody: {content: {application/json: {schema: {type: object, properties: {user: {type: string}}}}}}
`

func reportsSource(t *testing.T, url, operation string) sources.OpenAPI {
	t.Helper()
	root, err := openapi.Read([]byte(reportsAPI))
	if err != nil {
		t.Fatal(err)
	}
	described, err := openapi.Describe(root, url)
	if err != nil {
		t.Fatal(err)
	}
	n := slices.IndexFunc(described.Operations, func(o openapi.Operation) bool { return o.Name == operation })
	if n < 0 {
		t.Fatalf("the operations are %+v, left out %+v", described.Operations, described.Left)
	}
	return sources.OpenAPI{
		Client: client(), Operation: described.Operations[n], Principal: "user", Cursor: "page_token", Items: "/data/reports", Next: "/data/next", ID: "id", Name: "title",
	}
}

// An operation of an HTTP interface gets the user and the cursor in its parameters, and
// neither leaves its place.
func TestATK110_OpenAPIParametersStayInTheirPlace(t *testing.T) {
	var asked []string
	url := standIn(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		asked = append(asked, r.RequestURI)
		if strings.Contains(r.RequestURI, "page_token") {
			_, _ = io.WriteString(w, `{"data":{"reports":[{"id":8,"title":"Eight","year":2025,"final":true}],"next":null}}`)
			return
		}
		_, _ = io.WriteString(w, `{"data":{"reports":[{"id":7,"title":"Seven","year":2024,"tags":["x"]}],"next":"a&b=c/../d"}}`)
	})
	s := reportsSource(t, url, "list_reports")
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	if got := all(t, guarded(s, t.Output()), question(t, "user:alice", "{}")); !slices.Equal(got, []string{"7", "8"}) {
		t.Errorf("alice sees %q", got)
	}
	all(t, guarded(s, t.Output()), question(t, "x/../admin?all=1#&é", "{}"))
	want := []string{
		"/users/user:alice/reports", "/users/user:alice/reports?page_token=a%26b%3Dc%2F..%2Fd",
		"/users/x%2F..%2Fadmin%3Fall=1%23&%C3%A9/reports", "/users/x%2F..%2Fadmin%3Fall=1%23&%C3%A9/reports?page_token=a%26b%3Dc%2F..%2Fd",
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q\nwant %q", asked, want)
	}
	for _, name := range []string{"..", ".", "a\r\nHost: evil", "a\x00", "\xff"} {
		if _, err := s.Page(t.Context(), question(t, name, "{}")); err == nil {
			t.Errorf("the user %q is asked for", name)
		}
	}
	if post := reportsSource(t, url, "add_report"); post.Check() == nil {
		t.Error("an operation that changes something is a source")
	}
}

// ATK-111: the number 7 and the text "7" are one id for the agent, so that an interface
// that has both has failed.
func TestATK111_IdsOfTwoKindsFail(t *testing.T) {
	for what, answer := range map[string]string{
		"two kinds":   `{"data":{"reports":[{"id":7},{"id":"7"}]}}`,
		"a fraction":  `{"data":{"reports":[{"id":7.5}]}}`,
		"a spelling":  `{"data":{"reports":[{"id":7e0}]}}`,
		"no id":       `{"data":{"reports":[{"title":"x"}]}}`,
		"an object":   `{"data":{"reports":[{"id":{"$ne":1}}]}}`,
		"true":        `{"data":{"reports":[{"id":true}]}}`,
		"no list":     `{"data":{"reports":{"id":"7"}}}`,
		"two members": `{"data":{"reports":[{"id":"6","id":"7"}]}}`,
		"deep":        `{"data":{"reports":[{"id":"6","quarter":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}]}}`,
		"a cursor":    `{"data":{"reports":[],"next":{"token":"x"}}}`,
	} {
		url := standIn(t, func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = io.WriteString(w, answer) })
		t.Run(what, func(t *testing.T) {
			failsClosed(t, reportsSource(t, url, "list_reports"), question(t, "user:alice", "{}"))
		})
	}
}

// webSources are the sources over HTTP, at one URL.
func webSources(t *testing.T, url string) map[string]sources.Source {
	return map[string]sources.Source{
		"OpenFGA": sources.OpenFGA{Client: client(), URL: url, Store: "s", Type: "report"},
		"SpiceDB": sources.SpiceDB{Client: client(), URL: url, Type: "report", Size: 10},
		"AuthZEN": sources.AuthZEN{Client: client(), URL: url, Type: "report", Size: 10},
		"OpenAPI": reportsSource(t, url, "list_reports"),
		"MCP":     sources.MCP{Client: client(), URL: url, UserHeader: "X-User"},
	}
}

// ATK-111: whatever a system over HTTP answers with, a failure gives no resources, and the
// log has nothing of the answer.
func TestATK111_ASystemThatMisbehavesFailsClosed(t *testing.T) {
	big := bytes.Repeat([]byte(" \n"), 4<<20)
	for what, answer := range map[string]func(w http.ResponseWriter, r *http.Request, body string){
		"100 MB": func(w http.ResponseWriter, _ *http.Request, _ string) {
			// The part that is within the limit is a good answer.
			_, _ = io.WriteString(w, `{"objects":["report:secret"],"results":[{"type":"report","id":"secret"}],"data":{"reports":[{"id":"secret"}]},"result":{"resourceObjectId":"secret"}}`)
			for range 13 {
				if _, err := w.Write(big); err != nil {
					return
				}
			}
		},
		"an error with words": func(w http.ResponseWriter, _ *http.Request, _ string) { http.Error(w, "secret: no table reports", 500) },
		"not found":           func(w http.ResponseWriter, r *http.Request, _ string) { http.NotFound(w, r) },
		"a redirect": func(w http.ResponseWriter, r *http.Request, _ string) {
			http.Redirect(w, r, "http://169.254.169.254/secret", http.StatusTemporaryRedirect)
		},
		"a page": func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `{"objects":["report:secret"]}`)
		},
		"another shape": func(w http.ResponseWriter, _ *http.Request, _ string) {
			_, _ = io.WriteString(w, `{"objects":[{"secret":1}],"results":"secret","result":[],"data":{"reports":"secret"}}`)
		},
		"another type": func(w http.ResponseWriter, _ *http.Request, _ string) {
			_, _ = io.WriteString(w, `{"objects":["payroll:secret"],"results":[{"type":"payroll","id":"secret"}]}`)
		},
		"cut off": func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"objects":["report:secret"`)
		},
		"names twice": func(w http.ResponseWriter, _ *http.Request, _ string) {
			_, _ = io.WriteString(w, `{"objects":["report:secret"],"objects":["report:secret2"],"results":[],"results":[{"type":"report","id":"secret"}],"data":{},"data":{}}`)
		},
	} {
		url := standIn(t, answer)
		for system, s := range webSources(t, url) {
			t.Run(what+"/"+system, func(t *testing.T) { failsClosed(t, s, question(t, "user:alice", "{}"), "secret") })
		}
	}
}

// ATK-110: names that these systems would read as a group, as all users or as another
// type are not sent.
func TestATK110_NamesThatMeanMoreAreNotSent(t *testing.T) {
	url := standIn(t, func(_ http.ResponseWriter, r *http.Request, body string) { t.Errorf("asked %s %s", r.URL, body) })
	for system, s := range webSources(t, url) {
		if system == "OpenAPI" || system == "MCP" {
			continue // they take the name as it is, in its place
		}
		for _, name := range []string{"group:a#member", "user:*", "*", "user:a:b", "user:", "", "user:a b", "user:a\n", "user:\x00", `user:"`, "user:é"} {
			if _, err := s.Page(t.Context(), question(t, name, "{}")); err == nil {
				t.Errorf("%s is asked for %q", system, name)
			}
		}
	}
	for _, name := range []string{"", "a\r\nX-Admin: 1", "a b", "é"} {
		if _, err := webSources(t, url)["MCP"].Page(t.Context(), question(t, name, "{}")); err == nil {
			t.Errorf("MCP is asked for %q", name)
		}
	}
}

// A server of the official MCP SDK lists resources for the user in the header, page by
// page.
func TestMCPResourcesOfTheUser(t *testing.T) {
	handler := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		s := mcp.NewServer(&mcp.Implementation{Name: "reports", Version: "1"}, &mcp.ServerOptions{PageSize: 2})
		for n := range map[string]int{"user:alice": 5, "user:bob": 1}[r.Header.Get("X-User")] {
			s.AddResource(&mcp.Resource{URI: fmt.Sprintf("report://%s/%d", strings.TrimPrefix(r.Header.Get("X-User"), "user:"), n), Name: fmt.Sprint(n), Title: fmt.Sprintf("Report %d", n), MIMEType: "text/plain"},
				func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
					return &mcp.ReadResourceResult{}, nil
				})
		}
		return s
	}, &mcp.StreamableHTTPOptions{Stateless: true})
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	s := guarded(sources.MCP{Client: client(), URL: server.URL, UserHeader: "X-User"}, t.Output())
	for user, want := range map[string]int{"user:alice": 5, "user:bob": 1, "user:carol": 0} {
		got := all(t, s, question(t, user, "{}"))
		if len(got) != want || slices.ContainsFunc(got, func(id string) bool { return !strings.HasPrefix(id, "report://"+strings.TrimPrefix(user, "user:")) }) {
			t.Errorf("%s sees %q", user, got)
		}
	}
	q := question(t, "user:bob", "{}")
	q.Collection.Attributes = map[string]catalogue.Attribute{"mimeType": {Type: catalogue.TypeText, Required: true}}
	p, err := s.Page(t.Context(), q)
	if err != nil || len(p.Items) != 1 || p.Items[0].Name != "Report 0" || p.Items[0].Attributes["mimeType"].String() != `"text/plain"` {
		t.Errorf("got %+v, %v", p, err)
	}
}
