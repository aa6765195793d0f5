package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const twoChecks = `# how it reads
check: SEP-11 expired
file: token/verify.go
find: if expired(now) {
with: if false {
test: token TestSEP11_Reasons/expired

check: EXT-22 previous hash
file: evidence/chain.go
find:
|	h.Write(prev)
|	h.Write(body)
with:
|	h.Write(body)
test: evidence TestEXT22_Vectors
`

func TestParseChecks(t *testing.T) {
	got, err := parseChecks(twoChecks)
	if err != nil {
		t.Fatal(err)
	}
	want := []check{
		{name: "SEP-11 expired", file: "token/verify.go", find: "if expired(now) {", with: "if false {", folder: "token", test: "TestSEP11_Reasons/expired"},
		{name: "EXT-22 previous hash", file: "evidence/chain.go", find: "\th.Write(prev)\n\th.Write(body)\n", with: "\th.Write(body)\n", folder: "evidence", test: "TestEXT22_Vectors"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(check{})); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
}

func TestParseChecksRefuses(t *testing.T) {
	for name, edit := range map[string][2]string{
		"an unknown key":           {"file: token", "files: token"},
		"a line without a key":     {"# how it reads", "how it reads"},
		"a value before any entry": {"# how it reads", "file: a.go"},
		"an entry without a test":  {"test: evidence TestEXT22_Vectors", ""},
		"a test without a folder":  {"test: evidence TestEXT22_Vectors", "test: TestEXT22_Vectors"},
		"a key twice":              {"with: if false {", "with: if false {\nwith: if true {"},
		"a file and a function":    {"file: token/verify.go", "file: token/verify.go\nfunc: token expired"},
		"no file and no function":  {"file: token/verify.go\n", ""},
		"a removal that changes nothing": {
			"with: if false {", "with: if expired(now) {",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parseChecks(strings.Replace(twoChecks, edit[0], edit[1], 1)); err == nil {
				t.Error("no error")
			}
		})
	}
}

// TestChecksCanBeRemoved holds testdata/checks.txt to the code as it is, which
// make mutate would find out long after.
func TestChecksCanBeRemoved(t *testing.T) {
	root := mustRoot(t)
	checks, err := house{root: root}.checks()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		src, err := os.ReadFile(filepath.Join(root, c.file))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if mutant, err := c.apply(string(src)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if mutant == string(src) {
			t.Errorf("%s: the text is the same without the check", c.name)
		}
	}
	wrong, err := house{root: root, stderr: os.Stderr}.unbuildable(t.Context(), checks)
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range wrong {
		t.Errorf("%s does not compile: %v", name, err)
	}
}

// TestRemovalsThatDoNotCompile finds them in one package, whether the error is in the file
// itself or in another one.
func TestRemovalsThatDoNotCompile(t *testing.T) {
	checks := []check{
		{name: "compiles", file: "tools/house/mutate.go", find: "if within > 0 {", with: "if within > 1 {"},
		{name: "an unused variable", file: "tools/house/builds.go", find: "\tinner := \".\"", with: "\tinner, unused := \".\", 0"},
		{name: "a type that another file needs", file: "tools/house/tree.go", find: "type module struct {", with: "type modul struct {"},
	}
	wrong, err := house{root: mustRoot(t), stderr: os.Stderr}.unbuildable(t.Context(), checks)
	if err != nil {
		t.Fatal(err)
	}
	if wrong["compiles"] != nil || wrong["an unused variable"] == nil || wrong["a type that another file needs"] == nil {
		t.Errorf("wrong: %v", wrong)
	}
}

// TestFunctionsOfChecksAreFound: the text is looked for in the function, in the one file
// that has it.
func TestFunctionsOfChecksAreFound(t *testing.T) {
	root := t.TempDir()
	writeTree(t, root, map[string]string{
		"p/one.go":      "package p\n\nfunc Free() bool { return a && b }\n",
		"p/two.go":      "package p\n\nfunc (m *Memo[T]) Free() bool { return a && b }\nfunc (m Memo[T]) Twice() bool { return a && b || a && b }\n",
		"p/amd64.go":    "package p\n\nfunc Fast() {}\n",
		"p/arm64.go":    "package p\n\nfunc Fast() {}\n",
		"p/two_test.go": "package p\n\nfunc Free() {}\n",
	})
	for name, c := range map[string]struct{ function, want, problem string }{
		"a function":                   {"p Free", "package p\n\nfunc Free() bool { return a }\n", ""},
		"a method beside others":       {"p Memo.Free", "package p\n\nfunc (m *Memo[T]) Free() bool { return a }\nfunc (m Memo[T]) Twice() bool { return a && b || a && b }\n", ""},
		"the text twice in it":         {"p Memo.Twice", "", "2 times"},
		"a function in two files":      {"p Fast", "", "2 files"},
		"a function that is not there": {"p Gone", "", "0 files"},
		"no folder":                    {"Free", "", "want the folder"},
	} {
		t.Run(name, func(t *testing.T) {
			checks := []check{{name: name, function: c.function, find: "a && b", with: "a"}}
			got, err := "", locate(root, checks)
			if err == nil {
				var src []byte
				if src, err = os.ReadFile(filepath.Join(root, checks[0].file)); err == nil {
					got, err = checks[0].apply(string(src))
				}
			}
			if got != c.want || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%q, error %v; want %q, error with %q", got, err, c.want, c.problem)
			}
		})
	}
}

func TestApply(t *testing.T) {
	c := check{file: "a.go", find: "a && b", with: "a"}
	if got, err := c.apply("if a && b {"); err != nil || got != "if a {" {
		t.Errorf("apply: %q, %v", got, err)
	}
	for _, src := range []string{"if a {", "a && b && a && b"} {
		if _, err := c.apply(src); err == nil {
			t.Errorf("apply to %q has no error", src)
		}
	}
}

func TestVerdict(t *testing.T) {
	run := `{"Action":"run","Package":"p","Test":"TestA"}` + "\n"
	output := `{"Action":"output","Package":"p","Test":"TestA","Output":"panic: no\n"}` + "\n"
	cases := map[string]struct {
		output string
		exit   error
		caught bool
		bad    bool
	}{
		"fails":          {run + `{"Action":"fail","Package":"p","Test":"TestA"}`, errFailed, true, false},
		"passes":         {run + `{"Action":"pass","Package":"p","Test":"TestA"}`, nil, false, false},
		"panics":         {run + output, errFailed, true, false},
		"does not build": {`{"Action":"fail","Package":"p"}`, errFailed, false, true},
		"does not run":   {`{"Action":"pass","Package":"p"}`, nil, false, true},
		"skips":          {run + `{"Action":"skip","Package":"p","Test":"TestA"}`, nil, false, false},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			caught, err := check{test: "TestA"}.verdict(tt.output, tt.exit)
			if caught != tt.caught || (err != nil) != tt.bad {
				t.Errorf("caught %v, error %v", caught, err)
			}
		})
	}
}

func TestRunPattern(t *testing.T) {
	if got := runPattern("TestA/x.y"); got != `^TestA$/^x\.y$` {
		t.Errorf("runPattern %s", got)
	}
}

// TestMutateNotices runs a real overlay: the entry of checks.txt that removes one
// of this package's own checks is caught, the same entry with a harmless change
// is not, and one that does not compile is an error.
func TestMutateNotices(t *testing.T) {
	h := house{root: mustRoot(t), stdout: new(strings.Builder), stderr: new(strings.Builder)}
	c := check{
		name: "house", file: "tools/house/cover.go", find: `count == 0 && `, with: `count == 1 && `,
		folder: "tools/house", test: "TestParseProfile",
	}
	harmless, broken := c, c
	harmless.with = `(count == 0) && `
	broken.with = `count = 0 && `
	if caught, err := h.mutateOne(t.Context(), c); err != nil || !caught {
		t.Errorf("a removed check: caught %v, error %v", caught, err)
	}
	if caught, err := h.mutateOne(t.Context(), harmless); err != nil || caught {
		t.Errorf("a harmless change: caught %v, error %v", caught, err)
	}
	if _, err := h.mutateOne(t.Context(), broken); err == nil || errors.Is(err, errFailed) {
		t.Errorf("a change that does not compile: error %v", err)
	}
}
