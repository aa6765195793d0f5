package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// built is a package of the tree as the go tool lists it.
type built struct {
	ImportPath string
	Dir        string
	Export     string // file with what importers see of it
	GoFiles    []string
}

// unbuildable returns an error for each removal that does not compile. Such a removal
// tests nothing, and a full run would find it only after hours.
func (h house) unbuildable(ctx context.Context, checks []check) (map[string]error, error) {
	modules, err := findModules(h.root)
	if err != nil {
		return nil, err
	}
	byModule := make(map[string][]check)
	for _, c := range checks {
		if strings.HasSuffix(c.file, ".go") {
			m := moduleOf(modules, c.file)
			byModule[m] = append(byModule[m], c)
		}
	}
	wrong := make(map[string]error)
	for dir, own := range byModule {
		packages, err := h.list(ctx, dir, own)
		if err != nil {
			return nil, err
		}
		if err := compileAll(h.root, packages, own, wrong); err != nil {
			return nil, err
		}
	}
	return wrong, nil
}

// moduleOf is the folder of the innermost module that holds the file.
func moduleOf(modules []module, file string) string {
	inner := "."
	for _, m := range modules {
		if strings.HasPrefix(file, m.dir+"/") && len(m.dir) > len(inner) {
			inner = m.dir
		}
	}
	return inner
}

// list builds the packages that the removals are in, and all that they import.
func (h house) list(ctx context.Context, module string, checks []check) ([]built, error) {
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}
	seen := make(map[string]bool)
	for _, c := range checks {
		folder, err := filepath.Rel(filepath.FromSlash(module), filepath.FromSlash(path.Dir(c.file)))
		if err != nil {
			return nil, err
		}
		if p := "./" + filepath.ToSlash(folder); !seen[p] {
			seen[p] = true
			args = append(args, p)
		}
	}
	out, err := h.goCommand(ctx, module, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w", module, err)
	}
	var packages []built
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p built
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

// compileAll puts the removals that do not compile into wrong.
func compileAll(root string, packages []built, checks []check, wrong map[string]error) error {
	exports, inside := make(map[string]string), make(map[string]built)
	for _, p := range packages {
		exports[p.ImportPath], inside[p.Dir] = p.Export, p
	}
	byPackage := make(map[string][]check)
	for _, c := range checks {
		dir := filepath.Join(root, filepath.FromSlash(path.Dir(c.file)))
		byPackage[dir] = append(byPackage[dir], c)
	}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	var mu sync.Mutex
	for dir, own := range byPackage {
		group.Go(func() error {
			compiler, err := newCompiler(inside[dir], exports)
			if err != nil {
				return err
			}
			for _, c := range own {
				if err := compiler.without(c); err != nil {
					mu.Lock()
					wrong[c.name] = err
					mu.Unlock()
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// compiler type-checks one package with a removal in it.
type compiler struct {
	built
	files *token.FileSet
	from  types.Importer
	trees map[string]*ast.File // by name, whole
	hulls map[string]*ast.File // by name, without the bodies of functions
}

func newCompiler(p built, exports map[string]string) (*compiler, error) {
	c := &compiler{built: p, files: token.NewFileSet(), trees: make(map[string]*ast.File), hulls: make(map[string]*ast.File)}
	c.from = importer.ForCompiler(c.files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, name := range p.GoFiles {
		src, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		if c.trees[name], err = c.parse(name, src); err != nil {
			return nil, err
		}
		if c.hulls[name], err = c.parse(name, src); err != nil {
			return nil, err
		}
		strip(c.hulls[name])
	}
	return c, nil
}

func (c *compiler) parse(name string, src []byte) (*ast.File, error) {
	return parser.ParseFile(c.files, name, src, parser.SkipObjectResolution)
}

// without returns the first error of the package without the check.
func (c *compiler) without(k check) error {
	name := path.Base(k.file)
	src, err := os.ReadFile(filepath.Join(c.Dir, name))
	if err != nil {
		return err
	}
	mutant, err := k.apply(string(src))
	if err != nil {
		return err
	}
	return c.with(name, string(src), mutant)
}

// with returns the first error of the package in which a file has another text. The other
// files matter only where a declaration changes, so the bodies of their functions are left out.
func (c *compiler) with(name, src, mutant string) error {
	changed, err := c.parse(name, []byte(mutant))
	if err != nil {
		return err
	}
	others := c.hulls
	if declarations(changed, mutant) != declarations(c.trees[name], src) {
		others = c.trees
	}
	files := []*ast.File{changed}
	for other, tree := range others {
		if other != name {
			files = append(files, tree)
		}
	}
	return c.check(files, changed)
}

// check returns the first error. Where bodies were left out, those of other files do not count.
func (c *compiler) check(files []*ast.File, changed *ast.File) error {
	var first error
	config := types.Config{Importer: c.from, Error: func(err error) {
		var e types.Error
		if first == nil && errors.As(err, &e) && (c.isWhole(files) || changed.FileStart <= e.Pos && e.Pos <= changed.FileEnd) {
			first = err
		}
	}}
	_, _ = config.Check(c.ImportPath, c.files, files, nil) // its errors went to Error
	return first
}

func (c *compiler) isWhole(files []*ast.File) bool {
	return !slices.ContainsFunc(files, func(f *ast.File) bool {
		return slices.ContainsFunc(f.Decls, func(d ast.Decl) bool {
			fn, ok := d.(*ast.FuncDecl)
			return ok && fn.Body == nil
		})
	})
}

// declarations are a file's text without the bodies of its functions.
func declarations(f *ast.File, src string) string {
	var b strings.Builder
	from := f.FileStart
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			b.WriteString(src[from-f.FileStart : fn.Body.Pos()-f.FileStart])
			from = fn.Body.End()
		}
	}
	b.WriteString(src[from-f.FileStart:])
	return b.String()
}

// strip takes the bodies of functions out of a file.
func strip(f *ast.File) {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			fn.Body = nil
		}
	}
}
