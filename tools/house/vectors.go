package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// vectorSet is a set of public vectors that is not in the tree. Its tests have the
// build tag publicvectors, so that no other run needs it or passes it over.
type vectorSet struct {
	name   string
	env    string   // variable that names its folder
	module string   // Go module that has it, at an exact version
	folder string   // of the files, in the module
	file   string   // one that must be there
	run    string   // its tests
	in     []string // folders of its tests
}

var vectorSets = []vectorSet{
	{
		name: "Wycheproof (Ed25519, ECDSA P-256, JWS, ML-DSA-87)", env: "POWERBOX_WYCHEPROOF", module: "github.com/c2sp/wycheproof@v0.0.0-20260818164548-dac1dd4729fd",
		folder: "testvectors_v1", file: "ed25519_test.json", run: "Wycheproof", in: []string{"./token", "./evidence", "./eddsa"},
	},
	{
		name: "C2SP CCTV (Ed25519)", env: "POWERBOX_CCTV_ED25519", module: "c2sp.org/CCTV/ed25519@v0.0.0-20260605191406-1e3d2860d46e",
		file: "ed25519vectors.json", run: "CCTV", in: []string{"./token", "./evidence", "./eddsa"},
	},
}

// requireVectors makes a set that cannot be had a failure.
const requireVectors = "POWERBOX_VECTORS_REQUIRED"

// vectors puts the public vectors to every path by which the product verifies. A
// set that cannot be had is told loudly, with the reason, and counts as not run.
func (h house) vectors(ctx context.Context) error {
	var missing []string
	failed := false
	for _, s := range vectorSets {
		dir, err := h.findVectors(ctx, s)
		if err != nil {
			missing = append(missing, fmt.Sprintf("NOT RUN: %s: %v", s.name, err))
			continue
		}
		h.printf("%s, from %s\n", s.name, dir)
		cmd := h.goCommand(ctx, ".", append([]string{"test", "-tags", "publicvectors", "-count=1", "-v", "-run", s.run}, s.in...)...)
		cmd.Env = append(os.Environ(), s.env+"="+dir)
		out, err := cmd.Output()
		h.printf("%s", summary(string(out), err != nil))
		failed = failed || err != nil
	}
	for _, line := range missing {
		h.printf("%s\n", line)
	}
	if failed || len(missing) > 0 && os.Getenv(requireVectors) != "" {
		return errFailed
	}
	return nil
}

// findVectors looks where the variable says, and then asks the Go proxy.
func (h house) findVectors(ctx context.Context, s vectorSet) (string, error) {
	if named := os.Getenv(s.env); named != "" {
		dir := h.inTree(named)
		if _, err := os.Stat(filepath.Join(dir, s.file)); err != nil {
			return "", fmt.Errorf("%s: %w", s.env, err)
		}
		return dir, nil
	}
	cmd := h.goCommand(ctx, ".", "mod", "download", "-json", s.module)
	out, errRun := cmd.Output()
	var said struct{ Dir, Error string }
	if err := json.Unmarshal(out, &said); err != nil {
		return "", errors.Join(errRun, err)
	}
	if said.Error != "" {
		said.Error, _, _ = strings.Cut(said.Error, "\n")
		return "", fmt.Errorf("the Go proxy does not have it (%s); name a folder of it in %s", said.Error, s.env)
	}
	dir := filepath.Join(said.Dir, s.folder)
	_, err := os.Stat(filepath.Join(dir, s.file))
	return dir, err
}

// summary is what go test -v says of the tests themselves: their counts and ends.
// Of a failure it is all.
func summary(out string, failed bool) string {
	if failed {
		return out
	}
	var kept strings.Builder
	for line := range strings.Lines(out) {
		if strings.Contains(line, "vectors:") || strings.HasPrefix(line, "--- ") {
			kept.WriteString("  " + strings.TrimSpace(line) + "\n")
		}
	}
	return kept.String()
}
