package main

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// mainModule is the path under which the walls know the packages.
const mainModule = "github.com/powerbox-project/powerbox"

// graph maps a package's import path to what it imports, tests left out.
type graph map[string][]string

// wall is one rule about what a package may reach or import.
type wall struct {
	why     string
	applies func(pkg string) bool
	refuses func(dep string) bool
	direct  bool // looks at the package's own imports only
}

// breach is one package on the wrong side of a wall.
type breach struct {
	pkg   string
	chain []string // from pkg to what it must not reach
	why   string
}

func (b breach) String() string {
	return fmt.Sprintf("%s: %s (%s)", b.pkg, b.why, strings.Join(b.chain, " -> "))
}

// walls are the rules of docs/ARCHITECTURE.md. A package that does not exist yet
// breaks none.
func walls() []wall {
	heavy := external("google.golang.org/grpc", "github.com/cedar-policy", "go.opentelemetry.io", "github.com/prometheus", "github.com/modelcontextprotocol")
	sql := external("database/sql", "modernc.org/sqlite", "github.com/jackc/pgx")
	// SDKs link google/uuid, which names the interfaces of drivers and opens nothing.
	store := both(sql, not(external("database/sql/driver")))
	programs := under("cmd", "examples", "internal/app", "internal/cli", "internal/demo")
	return append(sides(store), []wall{
		{
			why:     "the root package and location import the standard library alone",
			applies: among("", "location"), direct: true,
			refuses: not(isStandard),
		},
		{
			why:     "powerbox, token, evidence, eddsa, trust and agentcard take bytes, keys and time: no network, SQL, gRPC, Cedar, telemetry, MCP or internal package",
			applies: among("", "token", "evidence", "eddsa", "trust", "agentcard"),
			refuses: either(heavy, sql, external("net/http"), under("internal")),
		},
		{
			why:     "signatures are checked by one rule: only eddsa imports curve25519-voi",
			applies: not(under("eddsa")), direct: true,
			refuses: external("github.com/oasisprotocol/curve25519-voi"),
		},
		{
			why:     "gate declares what it needs and imports no implementation of it; of the internal packages it uses the one about clocks",
			applies: under("gate"),
			refuses: either(heavy, sql, both(under("internal", "holder", "cmd", "examples"), not(among("internal/steady")))),
		},
		{
			why:     "OpenTelemetry is linked by programs and internal/telemetry alone: what is measured is handed on",
			applies: not(either(programs, under("internal/telemetry", "bench", "integrations"), among("", "token", "evidence", "eddsa", "trust", "agentcard", "gate"))),
			refuses: external("go.opentelemetry.io", "github.com/prometheus"),
		},
		{
			why:     "Cedar is linked by programs and internal/issuing/policy alone, and by bench as a peer",
			applies: not(either(programs, under("internal/issuing/policy", "bench"))),
			refuses: external("github.com/cedar-policy"),
		},
		{
			why:     "powerbox-gateway and the parts of it are small: they link no store, no Cedar, no WebAuthn, no MCP SDK and no page",
			applies: under("cmd/powerbox-gateway", "internal/app/proxy", "internal/app/remote", "internal/cli/nodes", "internal/cli/capability"),
			refuses: either(external("modernc.org/sqlite", "github.com/jackc/pgx", "github.com/cedar-policy", "github.com/go-webauthn", "github.com/modelcontextprotocol"), both(under("internal/web"), not(under("internal/web/doors")))),
		},
	}...)
}

// sides are the walls between the folders of internal.
func sides(store func(string) bool) []wall {
	return []wall{
		{
			why:     "wire turns bytes into values and back: it imports the root package and token alone",
			applies: under("internal/wire"), direct: true,
			refuses: both(isOurs, not(either(among("", "token"), under("internal/wire")))),
		},
		{
			why:     "proxy, remote, the spool, holder and integrations never reach what issues, or a store: cmd hands them in-process implementations",
			applies: under("internal/proxy", "internal/remote", "internal/wire", "internal/store/spool", "holder", "integrations"),
			refuses: either(store, under("internal/issuing", "internal/store/rows", "internal/store/sqlite", "internal/store/postgres", "internal/store/storetest")),
		},
		{
			why:     "rows has the statements of both stores: it reaches no database and neither store",
			applies: under("internal/store/rows"),
			refuses: either(store, under("internal/store/sqlite", "internal/store/postgres")),
		},
		{
			why:     "proxy is traffic, and remote what processes tell each other: neither imports the other",
			applies: under("internal/proxy"),
			refuses: under("internal/remote"),
		},
		{
			why:     "remote is what processes tell each other: it passes no traffic on",
			applies: under("internal/remote"),
			refuses: under("internal/proxy"),
		},
		{
			why:     "issuing decides and keeps; it knows neither traffic nor other processes",
			applies: under("internal/issuing"),
			refuses: under("internal/proxy", "internal/remote"),
		},
		{
			why:     "only programs import web and the gateway",
			applies: not(under("cmd", "examples", "internal/app", "internal/cli", "internal/demo", "internal/web", "bench/doors")), direct: true,
			refuses: under("internal/web", "internal/proxy/gateway"),
		},
		{
			why:     "pages show what the interfaces say: an interface knows no page, and web knows no traffic",
			applies: under("internal/web/api", "internal/web/agentapi", "internal/web/operations"), direct: true,
			refuses: under("internal/web/console", "internal/proxy/gateway"),
		},
		{
			why:     "app puts a running instance together; only commands, the demo and one measurement do that",
			applies: not(under("cmd", "examples", "internal/app", "internal/cli", "internal/demo", "bench/doors")), direct: true,
			refuses: under("internal/app", "internal/cli", "internal/demo"),
		},
		{
			why:     "what runs knows nothing of commands, their flags and their output",
			applies: under("internal/app", "internal/audit"), direct: true,
			refuses: under("internal/cli", "internal/demo", "cmd"),
		},
		{
			why:     "audit is pure functions of records: it imports the root package, gate, evidence, action, plain and sorting alone",
			applies: under("internal/audit"), direct: true,
			refuses: both(isOurs, not(either(among("", "gate"), under("evidence", "internal/action", "internal/audit", "internal/plain", "internal/sorting")))),
		},
	}
}

// breaches applies every wall to every package of ours in the graph.
func breaches(g graph) []breach {
	var found []breach
	for _, pkg := range slices.Sorted(maps.Keys(g)) {
		if !isOurs(pkg) {
			continue
		}
		if word := forbiddenWord(pkg); word != "" {
			found = append(found, breach{pkg, []string{pkg}, "no package is called " + word + ": name it for what it holds"})
		}
		for _, w := range walls() {
			if !w.applies(pkg) {
				continue
			}
			if chain := g.chain(pkg, w); chain != nil {
				found = append(found, breach{pkg, chain, w.why})
			}
		}
	}
	return found
}

// chain is a shortest way from pkg to something that w refuses, or nil. Packages
// of one family are one side of every wall.
func (g graph) chain(pkg string, w wall) []string {
	from := map[string]string{pkg: ""}
	queue := []string{pkg}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, dep := range g[at] {
			if _, seen := from[dep]; seen {
				continue
			}
			from[dep] = at
			if w.refuses(dep) && !sameFamily(pkg, dep) {
				return trail(from, dep)
			}
			if !w.direct {
				queue = append(queue, dep)
			}
		}
	}
	return nil
}

func trail(from map[string]string, at string) []string {
	var chain []string
	for ; at != ""; at = from[at] {
		chain = append(chain, at)
	}
	slices.Reverse(chain)
	return chain
}

// forbiddenWord is the part of the path that says nothing, or "".
func forbiddenWord(pkg string) string {
	vague := []string{"util", "utils", "common", "types", "helper", "helpers", "shared", "pkg"}
	for part := range strings.SplitSeq(local(pkg), "/") {
		if slices.Contains(vague, part) {
			return part
		}
	}
	return ""
}

func isOurs(pkg string) bool { return pkg == mainModule || strings.HasPrefix(pkg, mainModule+"/") }

// isStandard follows the go tool: only other modules have a dot in the first
// element of their path.
func isStandard(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(first, ".")
}

// local is the path of our package within the module, "" for the root package.
func local(pkg string) string {
	return strings.TrimPrefix(strings.TrimPrefix(pkg, mainModule), "/")
}

// groups are the folders of internal that hold packages and are none.
var groups = []string{"app", "cli", "issuing", "proxy", "remote", "store", "web", "wire"}

// family is the package of the map that a package belongs to: internal/web/api
// for internal/web/api/page.
func family(pkg string) string {
	parts := strings.Split(local(pkg), "/")
	depth := 1
	if parts[0] == "internal" {
		depth = 2
		if len(parts) > 1 && slices.Contains(groups, parts[1]) {
			depth = 3
		}
	}
	return path.Join(parts[:min(depth, len(parts))]...)
}

func sameFamily(a, b string) bool { return isOurs(a) && isOurs(b) && family(a) == family(b) }

func within(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

// among matches our packages in exactly these folders.
func among(folders ...string) func(string) bool {
	return func(pkg string) bool { return isOurs(pkg) && slices.Contains(folders, local(pkg)) }
}

// under matches our packages in these folders and below.
func under(folders ...string) func(string) bool {
	return func(pkg string) bool {
		return isOurs(pkg) && slices.ContainsFunc(folders, func(f string) bool { return within(local(pkg), f) })
	}
}

// external matches packages of others, by their path or a parent of it.
func external(paths ...string) func(string) bool {
	return func(pkg string) bool {
		return slices.ContainsFunc(paths, func(p string) bool { return within(pkg, p) })
	}
}

func either(matches ...func(string) bool) func(string) bool {
	return func(pkg string) bool {
		return slices.ContainsFunc(matches, func(m func(string) bool) bool { return m(pkg) })
	}
}

func both(a, b func(string) bool) func(string) bool {
	return func(pkg string) bool { return a(pkg) && b(pkg) }
}

func not(match func(string) bool) func(string) bool {
	return func(pkg string) bool { return !match(pkg) }
}
