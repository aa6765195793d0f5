package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// fuzz runs every fuzz target of every module, one after the other, and continues
// after a failure: the go tool leaves the input in testdata/fuzz.
func (h house) fuzz(ctx context.Context, args []string) error {
	each := "30s"
	if len(args) > 0 {
		each = args[0]
	}
	if _, err := time.ParseDuration(each); err != nil {
		return err
	}
	tests, err := findTests(h.root)
	if err != nil {
		return err
	}
	failed := false
	for _, key := range slices.Sorted(maps.Keys(tests)) {
		f := tests[key]
		if !strings.HasPrefix(f.name, "Fuzz") {
			continue
		}
		h.printf("== %s for %s\n", key, each)
		cmd := h.goCommand(ctx, f.folder, "test", "-run", "^$", "-fuzz", "^"+f.name+"$", "-fuzzminimizetime", "10x", "-fuzztime", each, ".")
		cmd.Stdout = h.stdout
		if err := cmd.Run(); err != nil {
			h.printf("%s: %v\n", key, err)
			failed = true
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if failed {
		return errFailed
	}
	return nil
}
