package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
)

// Resources are those of one agent: a catalogue, which is at most one of file and items,
// and live collections.
type Resources struct {
	File  Path             `key:"file" doc:"Catalogue file, YAML or JSON."`
	Items []powerbox.Value `key:"items" doc:"The items: collection, id, name, attributes."`
	Live  []LiveCollection `key:"live" doc:"Collections whose resources another system has (docs/how-to/resources.md)."`
}

// LiveCollection is a collection of resources that another system has.
type LiveCollection struct {
	Collection string            `key:"collection" required:"true" format:"grant" doc:"Name of the collection, as resourceQuery and policies name it."`
	Attributes map[string]string `key:"attributes" doc:"Attributes of the resources, each with its type: text, integer, boolean or texts (a set). Names and types are no secret: errors list them. A resource with others is left out."`
	Optional   []string          `key:"optional" doc:"Attributes that a resource may lack. Policies must ask for them with has."`
	Prefix     string            `key:"prefix" doc:"Text before the ids of the source, in policies and for the agent. Ids must be unique within the agent, so it is required if the agent has another collection."`
	Action     string            `key:"action" doc:"How the source names the use of a resource: a relation in OpenFGA, a permission in SpiceDB, an action in AuthZEN."`
	Actions    map[string]string `key:"actions" doc:"Other names for some operations of the agent."`
	Limit      int               `key:"limit" default:"25" min:"1" max:"200" doc:"Most resources of one capability. A request continues with nextResources."`
	Timeout    time.Duration     `key:"timeout" default:"2s" doc:"Longest time of one call of the source; up to 30s."`
	Cache      time.Duration     `key:"cache" default:"2s" doc:"How long a page is kept for the same user and query; from 1ms to 1m."`
	Floor      time.Duration     `key:"floor" default:"25ms" doc:"A request with a lookup is answered this time after its begin, plus a random part of up to half of it. So the time does not reveal hidden resources. A slower one is answered a whole multiple later. From 1ms to 5s; more than a request normally takes."`
	Calls      int               `key:"calls" default:"8" min:"1" max:"100" doc:"Most calls of the source at once."`
	Source     LiveSource        `key:"source" doc:"The system with the resources: exactly one."`
}

// LiveSource is the system: one of them.
type LiveSource struct {
	SQL     LiveSQL     `key:"sql" doc:"A statement in PostgreSQL."`
	OpenFGA LiveOpenFGA `key:"openfga" doc:"ListObjects of OpenFGA."`
	SpiceDB LiveSpiceDB `key:"spicedb" doc:"LookupResources of SpiceDB, over its HTTP gateway."`
	AuthZEN LiveAuthZEN `key:"authzen" doc:"The resource search of an AuthZEN decision point."`
	OpenAPI LiveOpenAPI `key:"openapi" doc:"An operation of an HTTP interface that an OpenAPI document describes."`
	MCP     LiveMCP     `key:"mcp" doc:"resources/list of an MCP server over Streamable HTTP."`
}

// LiveSQL is a statement in PostgreSQL.
type LiveSQL struct {
	URLFile   Path   `key:"url_file" doc:"File with the URL of the database, postgres://user:password@host/name?sslmode=verify-full, of a user who may only read. It is read again for every connection."`
	Statement string `key:"statement" doc:"A SELECT in which $1 is the name of the user for whom the agent acts, such as user:alice. It returns the rows that this user may see, with a column for every attribute."`
	ID        string `key:"id" default:"id" doc:"Column with the id. It needs an index: pages are in its order."`
	Name      string `key:"name" doc:"Column with the name that callers see. Absent: callers see names without meaning."`
	Page      int    `key:"page" default:"100" min:"1" max:"1000" doc:"Rows of one page."`
}

// LiveOpenFGA is a store of OpenFGA.
type LiveOpenFGA struct {
	URL        string          `key:"url" format:"url" doc:"Base URL of its HTTP interface."`
	Store      string          `key:"store" doc:"Id of the store."`
	Model      string          `key:"model" doc:"Id of the authorization model. Absent: the latest."`
	Type       string          `key:"type" doc:"Type of the objects. Default: the name of the collection."`
	Credential AgentCredential `key:"credential" doc:"Secret that is sent with every call."`
}

// LiveSpiceDB is a SpiceDB.
type LiveSpiceDB struct {
	URL        string          `key:"url" format:"url" doc:"Base URL of its HTTP gateway."`
	Type       string          `key:"type" doc:"Type of the objects. Default: the name of the collection."`
	Page       int             `key:"page" default:"100" min:"1" max:"1000" doc:"Objects of one page."`
	Credential AgentCredential `key:"credential" doc:"Secret that is sent with every call: the preshared key."`
}

// LiveAuthZEN is a decision point.
type LiveAuthZEN struct {
	URL        string          `key:"url" format:"url" doc:"URL of the search, such as https://pdp.example.org/access/v1/search/resource."`
	Type       string          `key:"type" doc:"Type of the resources. Default: the name of the collection."`
	Page       int             `key:"page" default:"100" min:"1" max:"1000" doc:"Resources of one page."`
	Credential AgentCredential `key:"credential" doc:"Secret that is sent with every call."`
}

// LiveOpenAPI is an operation of an HTTP interface.
type LiveOpenAPI struct {
	Document   Path            `key:"document" doc:"File with the OpenAPI 3 document."`
	URL        string          `key:"url" format:"url" doc:"Base URL of the interface, instead of the document's first server."`
	Operation  string          `key:"operation" doc:"operationId of the operation, a GET."`
	Principal  string          `key:"principal" doc:"Its parameter for the name of the user."`
	Cursor     string          `key:"cursor" doc:"Its parameter for the cursor of a page. Absent: the answer has one page."`
	Items      string          `key:"items" doc:"JSON pointer to the list of resources in the answer, such as /data. Default: the answer itself."`
	Next       string          `key:"next" doc:"JSON pointer to the cursor of the next page in the answer."`
	ID         string          `key:"id" default:"id" doc:"Member of a resource with its id."`
	Name       string          `key:"name" doc:"Member with the name that callers see. Absent: callers see names without meaning."`
	Credential AgentCredential `key:"credential" doc:"Secret that is sent with every call."`
}

// LiveMCP is an MCP server.
type LiveMCP struct {
	URL        string          `key:"url" format:"url" doc:"Endpoint of the server."`
	UserHeader string          `key:"user_header" default:"X-Powerbox-User" doc:"Header with the name of the user whose resources the server lists. The server must believe it from this server alone."`
	Credential AgentCredential `key:"credential" doc:"Secret that is sent with every call."`
}

// Kind returns the name of the source that is set, and false unless exactly one is.
func (s LiveSource) Kind() (string, bool) {
	set := []string{}
	for _, one := range []struct{ kind, value string }{
		{"sql", s.SQL.Statement + string(s.SQL.URLFile)},
		{"openfga", s.OpenFGA.URL},
		{"spicedb", s.SpiceDB.URL},
		{"authzen", s.AuthZEN.URL},
		{"openapi", string(s.OpenAPI.Document)},
		{"mcp", s.MCP.URL},
	} {
		if one.value != "" {
			set = append(set, one.kind)
		}
	}
	return strings.Join(set, " and "), len(set) == 1
}

// credential returns the URL and the secret of the source that is set.
func (s LiveSource) credential() (url string, c AgentCredential) {
	switch kind, _ := s.Kind(); kind {
	case "openfga":
		return s.OpenFGA.URL, s.OpenFGA.Credential
	case "spicedb":
		return s.SpiceDB.URL, s.SpiceDB.Credential
	case "authzen":
		return s.AuthZEN.URL, s.AuthZEN.Credential
	case "openapi":
		return s.OpenAPI.URL, s.OpenAPI.Credential
	case "mcp":
		return s.MCP.URL, s.MCP.Credential
	}
	return "", AgentCredential{}
}

func (k checker) checkResources() {
	for _, agent := range slices.Sorted(maps.Keys(k.Resources)) {
		at, r := "resources."+agent, k.Resources[agent]
		k.known(at, "agent", agent, k.agents)
		if catalogues := (r.File != "") != (r.Items != nil); !catalogues && (r.File != "" || len(r.Live) == 0) {
			k.place(at, "want exactly one of file and items, or live collections")
		}
		names := map[string]bool{}
		for n, c := range r.Live {
			at := fmt.Sprintf("%s.live[%d]", at, n)
			if names[c.Collection] {
				k.place(at+".collection", "%q is there twice", c.Collection)
			}
			names[c.Collection] = true
			k.checkLive(at, r, n)
			k.checkLiveSource(at+".source", c)
		}
	}
}

// The forms of names in live collections. That of an attribute does not begin with a digit.
var (
	attributes = form{`^[A-Za-z_][A-Za-z0-9_]{0,63}$`, 1, 64, func(c byte) bool { return letter(c) || digit(c) || c == '_' }}
	liveNames  = form{`^[A-Za-z0-9._:-]{1,64}$`, 1, 64, func(c byte) bool { return letter(c) || digit(c) || strings.IndexByte("._:-", c) >= 0 }}
	prefixes   = form{`^[!-~]{0,64}$`, 0, 64, printable}
)

func (k checker) checkLive(at string, r Resources, n int) {
	c := r.Live[n]
	if !liveNames.fits(c.Collection) {
		k.place(at+".collection", "is %q; want 1 to 64 letters, digits, '.', '_', '-' and ':'", c.Collection)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Attributes)) {
		if !attributes.fits(name) || digit(name[0]) {
			k.place(at+".attributes", "%q is no name; want letters, digits and '_'", name)
		}
		if t := c.Attributes[name]; !slices.Contains([]string{"text", "integer", "boolean", "texts"}, t) {
			k.place(at+".attributes."+name, "is %q; want text, integer, boolean or texts", t)
		}
	}
	for _, name := range c.Optional {
		if _, ok := c.Attributes[name]; !ok {
			k.place(at+".optional", "%q is none of attributes", name)
		}
	}
	others := r.File != "" || r.Items != nil || len(r.Live) > 1
	if c.Prefix == "" && others || !prefixes.fits(c.Prefix) {
		k.place(at+".prefix", "is %q; want a text of at most 64 visible ASCII characters such as %s/, since the agent has other collections, whose ids must differ", c.Prefix, c.Collection)
	}
	for m, o := range r.Live {
		if m != n && c.Prefix != "" && strings.HasPrefix(o.Prefix, c.Prefix) {
			k.place(at+".prefix", "%q begins the prefix %q of another collection; want prefixes of which none begins another", c.Prefix, o.Prefix)
		}
	}
	k.checkLiveTimes(at, c)
}

func (k checker) checkLiveTimes(at string, c LiveCollection) {
	for _, one := range []struct {
		key      string
		is       time.Duration
		min, max time.Duration
	}{{"timeout", c.Timeout, 10 * time.Millisecond, 30 * time.Second}, {"cache", c.Cache, time.Millisecond, time.Minute}, {"floor", c.Floor, time.Millisecond, 5 * time.Second}} {
		if one.is < one.min || one.is > one.max {
			k.place(at+"."+one.key, "%s is not from %s to %s", shortDuration(one.is), shortDuration(one.min), shortDuration(one.max))
		}
	}
}

func (k checker) checkLiveSource(at string, c LiveCollection) {
	s := c.Source
	kind, one := s.Kind()
	if !one {
		k.place(at, "has %q; want exactly one of sql, openfga, spicedb, authzen, openapi and mcp", kind)
		return
	}
	need := map[string]map[string]string{
		"sql":     {"url_file": string(s.SQL.URLFile), "statement": s.SQL.Statement, "id": s.SQL.ID},
		"openfga": {"store": s.OpenFGA.Store},
		"openapi": {"operation": s.OpenAPI.Operation, "principal": s.OpenAPI.Principal, "id": s.OpenAPI.ID},
		"mcp":     {"user_header": s.MCP.UserHeader},
	}[kind]
	for _, key := range slices.Sorted(maps.Keys(need)) {
		if need[key] == "" {
			k.place(at+"."+kind+"."+key, "is missing")
		}
	}
	if slices.Contains([]string{"openfga", "spicedb", "authzen"}, kind) && c.Action == "" {
		k.place(strings.TrimSuffix(at, ".source")+".action", "is missing; %s needs one", kind)
	}
	if kind == "sql" && !strings.Contains(s.SQL.Statement, "$1") {
		k.place(at+".sql.statement", "has no $1, so it would return the same rows for every user")
	}
	if kind == "openapi" && (s.OpenAPI.Cursor == "") != (s.OpenAPI.Next == "") {
		k.place(at+".openapi", "has one of cursor and next; want both or none")
	}
	url, secret := s.credential()
	k.checkCredential(at+"."+kind, Agent{Credential: secret})
	if secret.OAuth.TokenURL != "" && secret.OAuth.Grant == "refresh_token" {
		k.place(at+"."+kind+".credential.oauth.grant", "is refresh_token; want client_credentials")
	}
	if !secret.IsZero() && url != "" {
		if err := encryptedOrLoopback(url); err != nil {
			k.place(at+"."+kind+".url", "%v", err)
		}
	}
}
