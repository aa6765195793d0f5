package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/powerbox-project/powerbox/internal/config"
)

var update = flag.Bool("update", false, "write the golden files and the generated documents")

// section is one "-- name --" part of a file of testdata.
type section struct{ name, text string }

func sections(t testing.TB, path string) (comment string, parts []section) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	comment, rest, _ := strings.Cut(string(data), "\n-- ")
	for part := range strings.SplitSeq(rest, "\n-- ") {
		name, text, _ := strings.Cut(strings.TrimSuffix(part, "\n")+"\n", " --\n")
		parts = append(parts, section{name, text})
	}
	return comment, parts
}

// loadSections writes the files of an example to a folder and loads
// powerbox.yaml of them. The part called env is the environment. The folder's
// name is removed from the result.
func loadSections(t *testing.T, parts []section) (*config.Config, string) {
	t.Helper()
	dir := t.TempDir()
	env := []string{"HOME=/root", "POWERBOX_SESSION=is not a setting"}
	for _, p := range parts {
		if p.name == "env" {
			env = append(env, strings.Split(strings.TrimSpace(p.text), "\n")...)
			continue
		}
		file := filepath.Join(dir, p.name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(p.text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(dir, "powerbox.yaml"), os.ReadFile, env)
	if err != nil {
		return nil, strings.ReplaceAll(err.Error(), dir+"/", "") + "\n"
	}
	out, err := c.Effective()
	if err != nil {
		t.Fatal(err)
	}
	return c, strings.ReplaceAll(string(out), dir+"/", "")
}

// Every file of testdata is one configuration, with what holds or every
// problem as its last part.
func TestLoad(t *testing.T) {
	examples, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(examples) == 0 {
		t.Fatalf("%d examples, %v", len(examples), err)
	}
	for _, path := range examples {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			comment, parts := sections(t, path)
			want := ""
			if n := len(parts) - 1; parts[n].name == ">" {
				parts, want = parts[:n], parts[n].text
			}
			_, got := loadSections(t, parts)
			if *update {
				rewrite(t, path, comment, append(parts, section{">", got}))
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func rewrite(t *testing.T, path, comment string, parts []section) {
	t.Helper()
	out := comment + "\n"
	for _, p := range parts {
		out += "-- " + p.name + " --\n" + p.text
	}
	if err := os.WriteFile(path, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The printed effective configuration loads as the same, secrets aside, and
// is valid by the published schema.
func TestEffectiveLoadsAsItself(t *testing.T) {
	schema := compile(t)
	for _, name := range []string{"empty", "whole", "include"} {
		t.Run(name, func(t *testing.T) {
			_, parts := sections(t, "testdata/"+name+".txtar")
			c, first := loadSections(t, parts[:len(parts)-1])
			if c == nil {
				t.Fatal(first)
			}
			again, second := loadSections(t, []section{{"powerbox.yaml", first}})
			if again == nil {
				t.Fatal(second)
			}
			if diff := cmp.Diff(first, second); diff != "" {
				t.Error(diff)
			}
			if err := schema.Validate(asJSON(t, first)); err != nil {
				t.Error(err)
			}
			if strings.Contains(first, "dev-token") {
				t.Error("a secret is printed")
			}
		})
	}
}

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("powerbox.schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("powerbox.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func asJSON(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	v, err = jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchemaRefusesWhatLoadingRefuses(t *testing.T) {
	schema := compile(t)
	for _, text := range []string{
		"listn: 127.0.0.1:1", "listen: 1", "agents: [{id: A, upstream: http://a}]", "agents: [{upstream: http://a}]",
		"agents: [{id: a, upstream: http://a, deny_status: 500}]", "agents: [{id: a, upstream: http://a, canary: 101}]",
		"issuer: {maximum_lifetime: soon}", "offers: {a: [{id: x/y, operations: [b]}]}", "approvals: {x: 1}",
		"skills: {a: [{skill: s, grant: g, operation: o, arguments: {x: {}}}]}",
	} {
		if schema.Validate(asJSON(t, text)) == nil {
			t.Errorf("the schema accepts %q", text)
		}
		if c, _ := loadSections(t, []section{{"powerbox.yaml", text}}); c != nil {
			t.Errorf("Load accepts %q", text)
		}
	}
}

// The documents are generated: go test ./internal/config -update writes them.
func TestGeneratedDocuments(t *testing.T) {
	for path, got := range map[string][]byte{
		"../../docs/reference/configuration.md":     config.Document(),
		"../../docs/reference/powerbox.schema.json": config.Schema(),
	} {
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not up to date:\n%s", path, diff)
		}
	}
}

func TestExampleOfTheDocumentLoads(t *testing.T) {
	_, after, _ := strings.Cut(string(config.Document()), "```yaml\n")
	example, _, ok := strings.Cut(after, "```")
	if c, problems := loadSections(t, []section{{"powerbox.yaml", example}}); !ok || c == nil {
		t.Errorf("%s", problems)
	}
	if err := compile(t).Validate(asJSON(t, example)); err != nil {
		t.Error(err)
	}
}

func TestValuesOfAWholeConfiguration(t *testing.T) {
	_, parts := sections(t, "testdata/whole.txtar")
	c, problems := loadSections(t, parts[:len(parts)-1])
	if c == nil {
		t.Fatal(problems)
	}
	if c.Issuer.MaximumLifetime != 2*time.Hour || c.Defaults.BodyLimit != 8<<20 || c.Defaults.ProofWindow != 20*time.Second {
		t.Errorf("%v, %v, %v", c.Issuer.MaximumLifetime, c.Defaults.BodyLimit, c.Defaults.ProofWindow)
	}
	if c.Identity.Dev[0].Token.Reveal() != "alice-dev-token" {
		t.Error("the secret is not the one that was written")
	}
	documents, mail := c.Agents[0], c.Agents[1]
	if documents.Mode != "require" || mail.Mode != "scoped" || mail.Canary != 100 {
		t.Errorf("modes %s and %s, canary %d", documents.Mode, mail.Mode, mail.Canary)
	}
	read, everything := c.Offers["documents"][0], c.Offers["documents"][1]
	if diff := cmp.Diff([]string{"list", "retrieve", "search"}, c.OperationsOf("documents", read)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"delete", "write"}, c.OperationsOf("documents", everything)); diff != "" {
		t.Error(diff)
	}
	if read.MaximumLifetime != 30*time.Minute || everything.MaximumLifetime != 2*time.Hour {
		t.Errorf("lifetimes %s and %s", read.MaximumLifetime, everything.MaximumLifetime)
	}
	if a := c.Skills["documents"][1].Arguments; len(a) != 2 || a["query"].Type() != "wildcard" {
		t.Errorf("arguments %v", a)
	}
	if c.Skills["documents"][0].Arguments != nil || c.Skills["documents"][2].Arguments == nil {
		t.Error("an absent list of arguments and an empty one are not told apart")
	}
}

func TestSecretsAreMasked(t *testing.T) {
	_, parts := sections(t, "testdata/whole.txtar")
	c, _ := loadSections(t, parts[:len(parts)-1])
	secret := c.Identity.Dev[0].Token
	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("loaded", "user", secret)
	marshalled, err := json.Marshal(c.Identity.Dev)
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{
		secret.String(), fmt.Sprintf("%v %+v %#v %s %q %x", secret, secret, secret, secret, secret, secret),
		fmt.Sprintf("%v %+v %#v", c.Identity.Dev, c.Identity.Dev, c.Identity.Dev), logged.String(), string(marshalled),
	} {
		if strings.Contains(shown, "dev-token") || strings.Contains(shown, fmt.Sprintf("%x", "dev-token")) {
			t.Errorf("%q shows the secret", shown)
		}
	}
}

func TestLoadOfAMissingFile(t *testing.T) {
	_, err := config.Load(filepath.Join(t.TempDir(), "powerbox.yaml"), os.ReadFile, nil)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("err = %v; want that the file is not there", err)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.cedar", "a.cedar", "c.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) config.Path { return config.Path(filepath.Join(dir, name)) }
	got, err := config.Files([]config.Path{in("*.cedar"), in("b.cedar"), in("missing"), in("*.none")})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{string(in("a.cedar")), string(in("b.cedar")), string(in("missing"))}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := config.Files([]config.Path{in("[")}); err == nil {
		t.Error("a pattern that is none is accepted")
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]config.Size{"1": 1, "1B": 1, "512KiB": 512 << 10, "4MiB": 4 << 20, "1GiB": 1 << 30, "4194304": 4 << 20} {
		got, err := config.ParseSize(text)
		if err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
		again, err := config.ParseSize(got.String())
		if err != nil || again != got {
			t.Errorf("%s: printed as %s, which is %d, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "1kb", "KiB", "1.5MiB", "99999999999GiB", "9223372036854775807"} {
		if got, err := config.ParseSize(text); err == nil {
			t.Errorf("%q is %d; want it refused", text, got)
		}
	}
}

// FuzzLoad: no file causes a panic, every problem has a message, and an
// accepted file prints and loads again as the same.
func FuzzLoad(f *testing.F) {
	examples, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range examples {
		_, parts := sections(f, path)
		f.Add([]byte(parts[0].text))
	}
	load := func(data []byte) (*config.Config, error) {
		return config.Load("/powerbox.yaml", func(name string) ([]byte, error) {
			if name != "/powerbox.yaml" {
				return nil, fs.ErrNotExist
			}
			return data, nil
		}, nil)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.ContainsAny(data, "*?[") && bytes.Contains(data, []byte("include")) {
			return // would look at the disk
		}
		c, err := load(data)
		if err != nil {
			var problems config.Problems
			if !errors.As(err, &problems) || len(problems) == 0 || slices.ContainsFunc(problems, func(p config.Problem) bool { return p.Message == "" }) {
				t.Fatalf("err = %#v; want problems with messages", err)
			}
			return
		}
		if len(c.Identity.Dev) > 0 {
			return // their masked tokens would be the same
		}
		first, err := c.Effective()
		if err != nil {
			t.Fatal(err)
		}
		again, err := load(first)
		if err != nil {
			t.Fatalf("%v\nof\n%s", err, first)
		}
		second, err := again.Effective()
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%v: printed, loaded and printed again:\n%s", err, cmp.Diff(string(first), string(second)))
		}
	})
}
