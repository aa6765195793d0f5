package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
)

const longestShort = 70 // a line of the list of commands stays readable in a terminal of 80 columns

// Every command says in one short line what it does, and shows at least one command line that a reader can copy.
func TestEveryCommandHasAShortDescriptionAndAnExample(t *testing.T) {
	root := newRoot(&cli.Program{Env: func(string) string { return "" }, Now: time.Now})
	seen := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		seen++
		path := cmd.CommandPath()
		switch n := utf8.RuneCountInString(cmd.Short); {
		case n == 0 || n > longestShort:
			t.Errorf("%s: the short description has %d characters; want 1 to %d: %q", path, n, longestShort, cmd.Short)
		case strings.HasSuffix(cmd.Short, "."):
			t.Errorf("%s: the short description ends with a full stop: %q", path, cmd.Short)
		}
		if cmd.Runnable() && !strings.HasPrefix(cmd.Example, "  powerbox ") {
			t.Errorf("%s: the example %q does not begin with a command line of powerbox", path, cmd.Example)
		}
		for line := range strings.Lines(cmd.Example) {
			checkExample(t, root, cmd, line)
		}
		for _, child := range cmd.Commands() {
			walk(child)
		}
	}
	walk(root)
	if seen < 100 {
		t.Errorf("the walk saw %d commands; is it of the whole tree?", seen)
	}
}

// checkExample finds the command of an example line, and each of its flags.
func checkExample(t *testing.T, root, cmd *cobra.Command, line string) {
	t.Helper()
	words := strings.Fields(line)
	if len(words) < 2 || words[0] != "powerbox" {
		return // a line that continues the one before, or is of another program
	}
	found, _, err := root.Find(words[1:])
	if err != nil || found == root {
		t.Errorf("%s: no command belongs to the example %q: %v", cmd.CommandPath(), line, err)
		return
	}
	for _, word := range words {
		if word == "--" || word == "#" {
			return // the rest is a command of another program, or a comment
		}
		if name, isFlag := strings.CutPrefix(word, "--"); isFlag && found.Flag(name) == nil {
			t.Errorf("%s: the example %q uses --%s, which %s does not have", cmd.CommandPath(), line, name, found.CommandPath())
		}
	}
}
