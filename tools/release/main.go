// Command dist builds everything that a release of Powerbox consists of, into one folder:
// static binaries in archives, packages for Debian and RPM, an OCI image, bills of
// materials, a Homebrew formula and checksums. It publishes nothing.
//
// The same commit gives the same bytes in every folder: paths are trimmed, every time is
// that of the commit, and lists have one order.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("dist", flag.ContinueOnError)
	root := flags.String("root", "../..", "`folder` of the repository")
	out := flags.String("out", "../../dist", "`folder` for the result; it is emptied first")
	only := flags.String("targets", "", "systems to build for, such as linux/amd64,windows/arm64; all six by default")
	changed := flags.Bool("changed", false, "build although files differ from the commit; the version then says so")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r, err := readRelease(ctx, *root, *changed)
	if err != nil {
		return err
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if r.out, err = filepath.Abs(*out); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.out, 0o755)); err != nil {
		return err
	}
	for _, t := range chosen {
		fmt.Println("dist", t)
		if err := r.target(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	if err := r.formula(chosen); err != nil {
		return err
	}
	return r.sums()
}

// release is one commit on its way to a folder of artifacts.
type release struct {
	root, out       string
	version, commit string
	date            time.Time
}

var numberLine = regexp.MustCompile(`(?m)^const Number = "([0-9]+\.[0-9]+\.[0-9]+)"$`)

// readRelease reads the version from internal/version, and commit and date from git.
func readRelease(ctx context.Context, root string, changed bool) (*release, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	source, err := os.ReadFile(filepath.Join(root, "internal", "version", "version.go"))
	if err != nil {
		return nil, err
	}
	number := numberLine.FindSubmatch(source)
	if number == nil {
		return nil, errors.New("internal/version/version.go has no line const Number = \"X.Y.Z\"")
	}
	said, err := git(ctx, root, "show", "-s", "--format=%H %ct", "HEAD")
	if err != nil {
		return nil, err
	}
	r := &release{root: root, version: string(number[1])}
	var seconds int64
	if _, err := fmt.Sscanf(said, "%s %d", &r.commit, &seconds); err != nil {
		return nil, fmt.Errorf("git show says %q; want a commit and a time: %w", said, err)
	}
	r.date = time.Unix(seconds, 0).UTC()
	differs, err := git(ctx, root, "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if differs != "" && !changed {
		return nil, fmt.Errorf("these files differ from the commit that the artifacts would name; commit them, or pass -changed:\n%s", differs)
	}
	if differs != "" {
		r.commit += "-changed"
	}
	return r, nil
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	var failed bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "safe.directory=*", "-C", dir}, args...)...)
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, failed.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// sums writes the SHA-256 of every artifact, as sha256sum checks them.
func (r *release) sums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(data), e.Name()))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644)
}
