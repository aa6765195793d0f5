package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// coveredPackages are held at 100 % of statements, each by its own tests: the
// algebra, what it is carried in, and what it leaves behind.
func coveredPackages() []string { return []string{".", "./token", "./evidence", "./eddsa"} }

// cover runs the tests of the covered packages and prints every statement that
// none of them reached.
func (h house) cover(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "cover")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	profile := filepath.Join(dir, "profile")
	packages := coveredPackages()
	cmd := h.goCommand(ctx, ".", append([]string{"test", "-coverprofile", profile}, packages...)...)
	cmd.Stdout = h.stdout
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("tests of the covered packages: %w", err)
	}
	data, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	missed, total, err := parseProfile(string(data))
	if err != nil {
		return err
	}
	for _, at := range missed {
		h.printf("%s: not covered\n", at)
	}
	if len(missed) > 0 || total == 0 {
		h.printf("coverage: %d blocks of %d not covered in %s, must be none\n", len(missed), total, strings.Join(packages, " "))
		return errFailed
	}
	h.printf("coverage: every statement of %s\n", strings.Join(packages, " "))
	return nil
}

// parseProfile reads the lines "file:line.col,line.col statements count" of a
// cover profile, see go doc golang.org/x/tools/cover.
func parseProfile(profile string) (missed []string, total int, err error) {
	for line := range strings.Lines(profile) {
		f := strings.Fields(line)
		if len(f) == 2 && f[0] == "mode:" {
			continue
		}
		if len(f) != 3 {
			return nil, 0, fmt.Errorf("cover profile: %q is not a block", line)
		}
		total++
		count, err := strconv.ParseUint(f[2], 10, 64)
		if err != nil {
			return nil, 0, fmt.Errorf("cover profile: %w", err)
		}
		if count == 0 && f[1] != "0" {
			missed = append(missed, strings.TrimPrefix(f[0], mainModule+"/"))
		}
	}
	return missed, total, nil
}
