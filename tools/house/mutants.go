package main

import (
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// mutant is one small change of a file that a test should notice.
type mutant struct {
	file     string // relative to the root
	line     int
	from, to int // offsets of the text that is replaced
	with     string
	what     string
}

// mutants makes small random changes in the packages of the folders, one at a time, and says
// which of them no test notices: first the tests of the package, then the tests that
// testdata/checks.txt names for the file.
func (h house) mutants(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(h.stderr)
	number := flags.Int("n", 40, "how many")
	seed := flags.Uint64("seed", 1, "chooses them")
	part := flags.String("file", "", "only in files whose name contains this")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var all []mutant
	var where []check // gives the packages to the compiler
	for _, folder := range flags.Args() {
		found, err := h.mutantsIn(folder, *part)
		if err != nil {
			return err
		}
		all = append(all, found...)
		where = append(where, check{file: path.Join(path.Clean(folder), "any.go"), folder: path.Clean(folder)})
	}
	checks, err := h.checks()
	if err != nil {
		return err
	}
	if h.cache, err = h.warm(ctx, append(slices.Clone(where), check{folder: endToEnd})); err != nil {
		return err
	}
	packages, err := h.list(ctx, ".", where)
	if err != nil {
		return err
	}
	rand.New(rand.NewPCG(*seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) //nolint:gosec // an order of tests
	h.printf("%d possible changes\n", len(all))
	return h.tryMutants(ctx, all, *number, packages, checks)
}

// checks reads testdata/checks.txt.
func (h house) checks() ([]check, error) {
	data, err := os.ReadFile(filepath.Join(h.root, filepath.FromSlash(checksFile)))
	if err != nil {
		return nil, err
	}
	checks, err := parseChecks(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", checksFile, err)
	}
	if err := locate(h.root, checks); err != nil {
		return nil, fmt.Errorf("%s: %w", checksFile, err)
	}
	return checks, nil
}

// tryMutants tries the first number of mutants that compile.
func (h house) tryMutants(ctx context.Context, all []mutant, number int, packages []built, checks []check) error {
	compilers := make(map[string]*compiler)
	exports := make(map[string]string)
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	var group errgroup.Group
	group.SetLimit(atOnce)
	survived := make([]bool, number)
	tried := 0
	for _, m := range all {
		if tried == number || ctx.Err() != nil {
			break
		}
		src, text, err := h.mutated(m)
		if err != nil {
			return err
		}
		dir := filepath.Join(h.root, filepath.FromSlash(path.Dir(m.file)))
		if compilers[dir] == nil {
			at := slices.IndexFunc(packages, func(p built) bool { return p.Dir == dir })
			if compilers[dir], err = newCompiler(packages[at], exports); err != nil {
				return err
			}
		}
		if compilers[dir].with(path.Base(m.file), src, text) != nil {
			continue
		}
		n := tried
		tried++
		group.Go(func() error {
			by, err := h.noticed(ctx, m, text, checks)
			survived[n] = by == ""
			if by == "" {
				by = "SURVIVED"
			}
			h.printf("%-9s %s:%d: %s\n", by, m.file, m.line, m.what)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	left := 0
	for _, s := range survived {
		if s {
			left++
		}
	}
	h.printf("%d changes made, %d noticed, %d survived\n", tried, tried-left, left)
	return nil
}

// mutated returns the file's text as it is and as in the mutant.
func (h house) mutated(m mutant) (src, text string, err error) {
	data, err := os.ReadFile(filepath.Join(h.root, filepath.FromSlash(m.file)))
	if err != nil {
		return "", "", err
	}
	src = string(data)
	return src, src[:m.from] + m.with + src[m.to:], nil
}

// noticed returns which tests notice the mutant: those of the package, or those that the table
// of removals names for its file. It returns "" where none does.
func (h house) noticed(ctx context.Context, m mutant, text string, checks []check) (string, error) {
	target := filepath.Join(h.root, filepath.FromSlash(m.file))
	output, exit, err := h.overlaid(ctx, target, text, path.Dir(m.file), "-failfast", ".")
	if err != nil {
		return "", err
	}
	if exit != nil {
		return failure(output), nil
	}
	byFolder := make(map[string][]string)
	for _, c := range checks {
		test, _, _ := strings.Cut(c.test, "/")
		if c.file == m.file && c.folder != path.Dir(m.file) && !slices.Contains(byFolder[c.folder], test) {
			byFolder[c.folder] = append(byFolder[c.folder], test)
		}
	}
	for folder, tests := range byFolder {
		output, exit, err := h.overlaid(ctx, target, text, folder, "-failfast", "-run", "^("+strings.Join(tests, "|")+")$", ".")
		if err != nil {
			return "", err
		}
		if exit != nil {
			return failure(output), nil
		}
	}
	return "", nil
}

// failure names the first test that failed.
func failure(output string) string {
	rec := newRecorder(&strings.Builder{})
	if err := rec.read(strings.NewReader(output)); err == nil {
		for name, action := range rec.results {
			if action == "fail" && name.test != "" && !strings.Contains(name.test, "/") {
				return name.test
			}
		}
	}
	return "noticed"
}

// mutantsIn lists the possible changes of a folder's files.
func (h house) mutantsIn(folder, part string) ([]mutant, error) {
	names, err := filepath.Glob(filepath.Join(h.root, filepath.FromSlash(folder), "*.go"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || !strings.Contains(filepath.Base(name), part) {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		found, err := mutantsOf(string(src))
		if err != nil {
			return nil, err
		}
		for i := range found {
			found[i].file = path.Join(path.Clean(folder), filepath.Base(name))
		}
		all = append(all, found...)
	}
	return all, nil
}

// mutantsOf lists the possible changes of one file.
func mutantsOf(src string) ([]mutant, error) {
	files := token.NewFileSet()
	c := &compiler{files: files}
	tree, err := c.parse("a.go", []byte(src))
	if err != nil {
		return nil, err
	}
	base := int(tree.FileStart)
	var all []mutant
	change := func(from, to token.Pos, with, what string) {
		all = append(all, mutant{line: files.Position(from).Line, from: int(from) - base, to: int(to) - base, with: with, what: what})
	}
	text := func(n ast.Node) string { return src[int(n.Pos())-base : int(n.End())-base] }
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			if leaves(n.Body) {
				change(n.Cond.Pos(), n.Cond.End(), "false && ("+text(n.Cond)+")", "never leaves at if "+text(n.Cond))
			}
		case *ast.BinaryExpr:
			if with, ok := opposite[n.Op]; ok {
				change(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), with.String(), text(n)+" with "+with.String())
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				change(n.OpPos, n.OpPos+1, "", text(n)+" without !")
			}
		case *ast.ExprStmt:
			change(n.Pos(), n.End(), "", "without "+text(n))
		}
		return true
	})
	return all, nil
}

// opposite is what an operator becomes.
var opposite = map[token.Token]token.Token{
	token.LAND: token.LOR, token.LOR: token.LAND, token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR,
}

// leaves reports whether a block ends by leaving what it is in.
func leaves(b *ast.BlockStmt) bool {
	if len(b.List) == 0 {
		return false
	}
	switch b.List[len(b.List)-1].(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return true
	}
	return false
}
