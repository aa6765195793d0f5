package main

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// The program and all that it links are type-checked for the systems that no test runs on. A
// processor alone changes no file that this product has, so one of each system is enough here;
// make vet-target and make dist take all six.
func TestProgramsTypeCheckOnOtherSystems(t *testing.T) {
	for _, on := range []target{{"windows", "amd64"}, {"darwin", "arm64"}} {
		found, err := packages.Load(&packages.Config{
			// With syntax, everything is checked from its source; else the go command would compile it first.
			Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedTypesInfo,
			Dir:  "../..",
			Env:  append(os.Environ(), "CGO_ENABLED=0", "GOOS="+on.os, "GOARCH="+on.arch, "GOFLAGS="),
		}, "./cmd/...")
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d packages, %v", on, len(found), err)
		}
		packages.Visit(found, nil, func(p *packages.Package) {
			if !strings.HasPrefix(p.PkgPath, "github.com/powerbox-project/") {
				return
			}
			for _, e := range p.Errors {
				t.Errorf("%s: %v", on, e)
			}
		})
	}
}
