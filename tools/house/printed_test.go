package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestATK132_CommandsPrintOneWay holds every command to cli.Printf and cli.Document.
func TestATK132_CommandsPrintOneWay(t *testing.T) {
	root, read := mustRoot(t), 0
	err := walkFiles(root, func(rel string) error {
		if !isCommand(rel) {
			return nil
		}
		read++
		source, err := os.ReadFile(filepath.Join(root, rel))
		if err != nil {
			return err
		}
		places, err := printsOtherwise(rel, source)
		for _, place := range places {
			t.Errorf("%s prints without cli.Printf or cli.Document", place)
		}
		return err
	})
	if err != nil || read < 100 {
		t.Errorf("%d files of commands: %v", read, err)
	}
}

func TestPrintsOtherwise(t *testing.T) {
	for call, want := range map[string]bool{
		"fmt.Fprintf(w, text)":                      true,
		"fmt.Println(text)":                         true,
		"println(text)":                             true,
		"io.WriteString(p.Stdout, text)":            true,
		"io.WriteString(cmd.OutOrStdout(), text)":   true,
		"p.Stderr.Write(text)":                      true,
		"stdout.WriteString(text)":                  true,
		"io.WriteString(file, text)":                false,
		"file.Write(text)":                          false,
		"fmt.Sprintf(text)":                         false,
		"cli.Printf(p.Stdout, text)":                false,
		"cli.Document(p.Stdout, text)":              false,
		"tabwriter.NewWriter(p.Stdout, 0, 0, 2, 0)": false,
	} {
		places, err := printsOtherwise("a.go", []byte("package a\nfunc f() {\n"+call+"\n}\n"))
		if err != nil || slices.Equal(places, []string{"a.go:3"}) != want {
			t.Errorf("%s: %q %v; want %t", call, places, err, want)
		}
	}
	for rel, want := range map[string]bool{
		"internal/cli/nodes/feed.go": true, "cmd/powerbox/main.go": true, "internal/cli/nodes/feed_test.go": false, printer: false, "internal/demo/demo.go": false,
	} {
		if isCommand(rel) != want {
			t.Errorf("%s is a command: %t; want %t", rel, !want, want)
		}
	}
}
