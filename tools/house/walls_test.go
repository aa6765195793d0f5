package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/modfile"
)

// TestWalls holds every package of the main module and of this one to the walls, with what it
// links.
func TestWalls(t *testing.T) {
	holdToWalls(t, func(m module) bool { return m.dir == "." || m.dir == "tools/house" })
}

// TestWallsOfOtherModules does so for all modules. None of the others is imported by the main
// one, so that their packages make no breach there.
func TestWallsOfOtherModules(t *testing.T) {
	holdToWalls(t, func(module) bool { return true })
}

func holdToWalls(t *testing.T, which func(module) bool) {
	t.Helper()
	root := mustRoot(t)
	mods, err := findModules(root)
	if err != nil {
		t.Fatal(err)
	}
	g := make(graph)
	for _, m := range mods {
		if which(m) {
			loadGraph(t, g, root, m)
		}
	}
	if len(g[mainModule+"/tools/house"]) == 0 {
		t.Fatal("the graph has no imports for this package: it was not read")
	}
	for _, b := range breaches(g) {
		t.Error(b)
	}
}

// testLibraries are the modules of the main go.mod that no package links: the tests of the
// library use them. What the tests of the program need is required by e2e.
var testLibraries = []string{
	"github.com/gowebpki/jcs",            // another writer of RFC 8785
	"github.com/transparency-dev/merkle", // another reader of proofs
	"pgregory.net/rapid",                 // properties
}

// TestRequirements holds the main go.mod to what its packages link: a program that imports
// the library has each of them in its graph of modules.
func TestRequirements(t *testing.T) {
	root := mustRoot(t)
	data, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := house{root: root, stdout: io.Discard, stderr: io.Discard}
	out, err := h.goCommand(t.Context(), ".", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	linked, unlinked := strings.Fields(string(out)), []string(nil)
	for _, r := range file.Require {
		if !r.Indirect && !slices.Contains(linked, r.Mod.Path) {
			unlinked = append(unlinked, r.Mod.Path)
		}
	}
	if diff := cmp.Diff(testLibraries, unlinked); diff != "" {
		t.Errorf("modules that tests alone need (-listed +required):\n%s", diff)
	}
}

func loadGraph(t *testing.T, g graph, root string, m module) {
	t.Helper()
	h := house{root: root, stdout: io.Discard, stderr: io.Discard}
	cmd := h.goCommand(t.Context(), m.dir, "list", "-e", "-deps", "-json=ImportPath,Imports,ImportMap", "./...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list in %s: %v", m.dir, err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p struct {
			ImportPath string
			Imports    []string
			ImportMap  map[string]string // the standard library's vendored packages
		}
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		imports := make([]string, 0, len(p.Imports))
		for _, dep := range p.Imports {
			if mapped := p.ImportMap[dep]; mapped != "" {
				dep = mapped
			}
			imports = append(imports, dep)
		}
		g[p.ImportPath] = imports
	}
}

// TestATK66_OnePackageReadsAddresses: only internal/peer reads the address of a connection. Another reader would not know of
// trusted proxies.
func TestATK66_OnePackageReadsAddresses(t *testing.T) {
	root, found := filepath.Join("..", ".."), 0
	err := walkFiles(root, func(rel string) error {
		if path.Ext(rel) != ".go" || strings.HasSuffix(rel, "_test.go") || !strings.HasPrefix(rel, "internal/") && !strings.HasPrefix(rel, "cmd/") || strings.HasPrefix(rel, "tools/house/") {
			return nil
		}
		data, err := os.ReadFile(filepath.Join(root, rel))
		if err != nil || !strings.Contains(string(data), "RemoteAddr") {
			return err
		}
		if found++; !strings.HasPrefix(rel, "internal/peer/") {
			t.Errorf("ATK-66 %s reads the address of a connection; want peer.Of or peer.NetworkOf", rel)
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("ATK-66: %d files with RemoteAddr, %v", found, err)
	}
}

// TestWallsStand builds each wall's breach on purpose, on a made-up graph. In
// the edges "~" is the root package and "~/x" our package x.
func TestWallsStand(t *testing.T) {
	tests := []struct {
		name  string
		edges string
		want  []string // chains of the breaches
	}{
		{"an empty tree", "~: errors", nil},
		{"the root imports the standard library", "~: strings math/big", nil},
		{"the root imports a module", "~: golang.org/x/mod", []string{"~ golang.org/x/mod"}},
		{"token reaches HTTP through a dependency", "~/token: example.org/jose; example.org/jose: net/http", []string{"~/token example.org/jose net/http"}},
		{"token reaches HTTP through the standard library", "~/token: expvar; expvar: net/http", []string{"~/token expvar net/http"}},
		{"token imports net/url", "~/token: net/url ~", nil},
		{"eddsa imports its library", "~/eddsa: github.com/oasisprotocol/curve25519-voi/primitives/ed25519", nil},
		{"token imports it too", "~/token: github.com/oasisprotocol/curve25519-voi/primitives/ed25519", []string{"~/token github.com/oasisprotocol/curve25519-voi/primitives/ed25519"}},
		{"evidence reaches SQL", "~/evidence: database/sql", []string{"~/evidence database/sql"}},
		{"trust reaches gRPC", "~/trust: ~/evidence; ~/evidence: google.golang.org/grpc/codes", []string{"~/evidence google.golang.org/grpc/codes", "~/trust ~/evidence google.golang.org/grpc/codes"}},
		{"agentcard reaches telemetry", "~/agentcard: go.opentelemetry.io/otel", []string{"~/agentcard go.opentelemetry.io/otel"}},
		{"token reaches MCP", "~/token: github.com/modelcontextprotocol/go-sdk/mcp", []string{"~/token github.com/modelcontextprotocol/go-sdk/mcp"}},
		{"agentcard reaches an internal package", "~/agentcard: ~/internal/wire/a2a", []string{"~/agentcard ~/internal/wire/a2a"}},
		{"gate imports an implementation", "~/gate: ~/token ~/internal/issuing/policy", []string{"~/gate ~/internal/issuing/policy"}},
		{"gate imports the core", "~/gate: ~ ~/token ~/evidence ~/trust ~/agentcard net/http", nil},
		{"gateway reaches the issuer", "~/internal/proxy/gateway: ~/internal/x; ~/internal/x: ~/internal/issuing/issuer", []string{"~/internal/proxy/gateway ~/internal/x ~/internal/issuing/issuer"}},
		{"gateway reaches a store", "~/internal/proxy/gateway: modernc.org/sqlite", []string{"~/internal/proxy/gateway modernc.org/sqlite"}},
		{"gateway links telemetry", "~/internal/proxy/gateway: ~/internal/telemetry; ~/internal/telemetry: go.opentelemetry.io/otel", []string{"~/internal/proxy/gateway ~/internal/telemetry go.opentelemetry.io/otel"}},
		{
			"powerbox-gateway reaches a store", "~/cmd/powerbox-gateway: ~/internal/app/remote; ~/internal/app/remote: ~/internal/app; ~/internal/app: modernc.org/sqlite",
			[]string{"~/cmd/powerbox-gateway ~/internal/app/remote ~/internal/app modernc.org/sqlite", "~/internal/app/remote ~/internal/app modernc.org/sqlite"},
		},
		{"cmd links telemetry", "~/cmd/powerbox: ~/internal/telemetry; ~/internal/telemetry: go.opentelemetry.io/otel", nil},
		{"gateway keeps its own files", "~/internal/proxy/gateway: go.etcd.io/bbolt ~/gate ~/internal/proxy/gateway/spool", nil},
		{"the statements of both stores reach a driver", "~/internal/store/rows: ~/internal/issuing/issuer github.com/jackc/pgx/v5", []string{"~/internal/store/rows github.com/jackc/pgx/v5"}},
		{"the statements of both stores import one", "~/internal/store/rows: ~/internal/store/sqlite", []string{"~/internal/store/rows ~/internal/store/sqlite"}},
		{"the spool reaches the statements", "~/internal/store/spool: ~/internal/store/rows", []string{"~/internal/store/spool ~/internal/store/rows"}},
		{"holder reaches SQL", "~/holder: ~/y; ~/y: database/sql", []string{"~/holder ~/y database/sql"}},
		{"a part of holder reaches the provider", "~/holder/agentauth: ~/internal/issuing/provider", []string{"~/holder/agentauth ~/internal/issuing/provider"}},
		{"an integration reaches the issuer", "~/integrations/a2a: ~/internal/issuing/issuer", []string{"~/integrations/a2a ~/internal/issuing/issuer"}},
		{"an integration reaches SQL", "~/integrations/a2a: x.org/sdk; x.org/sdk: database/sql; database/sql: database/sql/driver", []string{"~/integrations/a2a x.org/sdk database/sql"}},
		{"an SDK names the interfaces of drivers", "~/integrations/a2a: x.org/sdk; x.org/sdk: database/sql/driver", nil},
		{"wire knows the gate", "~/internal/wire/a2a: ~/gate ~/token ~/internal/wire/mcp", []string{"~/internal/wire/a2a ~/gate"}},
		{"the gateway asks another process", "~/internal/proxy/gateway: ~/internal/remote/link", []string{"~/internal/proxy/gateway ~/internal/remote/link"}},
		{"a link passes traffic on", "~/internal/remote/link: ~/internal/proxy/stdio", []string{"~/internal/remote/link ~/internal/proxy/stdio"}},
		{"the issuer listens to a feed", "~/internal/issuing/issuer: ~/internal/remote/feed", []string{"~/internal/issuing/issuer ~/internal/remote/feed"}},
		{"the server is imported by another package", "~/internal/people: ~/internal/web/api", []string{"~/internal/people ~/internal/web/api"}},
		{"an interface knows a page", "~/internal/web/api: ~/internal/web/console", []string{"~/internal/web/api ~/internal/web/console"}},
		{"cmd wires everything", "~/cmd/powerbox: ~/internal/web/api ~/internal/proxy/gateway ~/internal/web/console ~/internal/issuing/policy; ~/internal/issuing/policy: github.com/cedar-policy/cedar-go", nil},
		{"the issuer links Cedar", "~/internal/issuing/issuer: ~/internal/issuing/policy; ~/internal/issuing/policy: github.com/cedar-policy/cedar-go/types", []string{"~/internal/issuing/issuer ~/internal/issuing/policy github.com/cedar-policy/cedar-go/types"}},
		{"a name that says nothing", "~/internal/common: errors; example.org/util: errors", []string{"~/internal/common"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, b := range breaches(parseGraph(tt.edges)) {
				got = append(got, strings.ReplaceAll(strings.Join(b.chain, " "), mainModule, "~"))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("breaches (-want +got):\n%s", diff)
			}
		})
	}
}

func parseGraph(edges string) graph {
	g := make(graph)
	for edge := range strings.SplitSeq(strings.ReplaceAll(edges, "~", mainModule), ";") {
		pkg, deps, _ := strings.Cut(edge, ":")
		g[strings.TrimSpace(pkg)] = strings.Fields(deps)
	}
	return g
}

func mustRoot(t *testing.T) string {
	t.Helper()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	return root
}
