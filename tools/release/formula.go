package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"text/template"
)

//go:embed formula.rb.tmpl
var formulaText string

var formulaOf = template.Must(template.New("formula").Parse(formulaText))

// formula writes the Homebrew formula, with the checksums of the archives. It needs the four
// systems that Homebrew has.
func (r *release) formula(built []target) error {
	sums := map[string]string{}
	for _, t := range targets[:4] {
		if !slices.Contains(built, t) {
			fmt.Println("no Homebrew formula: it needs an archive for", t)
			return nil
		}
		data, err := os.ReadFile(filepath.Join(r.out, r.name(t)+".tar.gz"))
		if err != nil {
			return err
		}
		sums[t.os+"_"+t.arch] = digest(data)
	}
	var out bytes.Buffer
	if err := formulaOf.Execute(&out, map[string]any{"Version": r.version, "Home": home, "License": license, "Sums": sums}); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "powerbox.rb"), out.Bytes(), 0o644)
}
