package config_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/internal/config"
)

const witnessDocument = "../../docs/how-to/witness.md"

func loadWitness(text string) (*config.WitnessFile, error) {
	return config.LoadWitness("dir/witness.yaml", func(string) ([]byte, error) { return []byte(text), nil })
}

// The table of docs/how-to/witness.md is generated: go test ./internal/config -update
// writes it.
func TestWitnessTable(t *testing.T) {
	text, err := os.ReadFile(witnessDocument)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := bytes.Cut(text, []byte("| key | type |"))
	_, after, ended := bytes.Cut(rest, []byte("\n\n"))
	if !found || !ended {
		t.Fatal("docs/how-to/witness.md has no table of keys")
	}
	next := bytes.Join([][]byte{before, config.WitnessTable(), []byte("\n"), after}, nil)
	if *update {
		if err := os.WriteFile(witnessDocument, next, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(text, next) {
		t.Errorf("the table of docs/how-to/witness.md is not up to date: go test ./internal/config -update")
	}
}

// The example of the document loads, and says what it is meant to.
func TestWitnessExample(t *testing.T) {
	text, err := os.ReadFile(witnessDocument)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "```yaml\n")
	example, _, ok := strings.Cut(after, "```")
	c, err := loadWitness(example)
	if !ok || err != nil {
		t.Fatal(err)
	}
	if c.Name != "witness.example.org/w1" || c.Directory != "dir/powerbox-witness" || len(c.Logs) != 2 || len(c.Logs[1].Keys) != 1 {
		t.Errorf("%+v", c)
	}
}

func TestWitnessRefuses(t *testing.T) {
	const name, logs = "name: w.example\n", "logs:\n  - {origin: a.example, keys: [a.example+00000000+AAAA]}\n"
	for want, text := range map[string]string{
		"name is missing":         logs,
		"logs is missing":         name,
		"is not the name of":      "name: two words\n" + logs,
		"is not an address":       name + logs + "listen: here\n",
		"is there twice":          name + logs + "  - {origin: a.example, keys: [a.example+00000000+AAAB]}\n",
		`want one of "b.example"`: name + logs + "  - {origin: b.example, keys: [a.example+00000000+AAAA]}\n",
		"keys is missing":         name + logs + "  - {origin: b.example}\n",
		"is unknown":              name + logs + "quorum: 2\n",
	} {
		if _, err := loadWitness(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
	if _, err := config.LoadWitness("x", func(string) ([]byte, error) { return nil, os.ErrNotExist }); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
