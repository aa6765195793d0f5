package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// enough is from how many removals on a common build is worth its time.
const enough = 20

// rounds bounds how often a common build leaves out what does not compile.
const rounds = 30

// common is one build of all removals that can be switched.
type common struct {
	h       house
	checks  []check
	dir     string // of the built files
	edits   map[string][]*edit
	files   map[string]switched
	program string // for tests end to end
}

// mutateCommon makes removals in one build, and returns those that it did not make or that no test
// noticed in it: each of those is then built alone.
func (h house) mutateCommon(ctx context.Context, checks []check) (left []check, err error) {
	dir, err := os.MkdirTemp("", "switched")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	c := &common{h: h, checks: checks, dir: dir, edits: map[string][]*edit{}, files: map[string]switched{}}
	if err := c.prepare(); err != nil {
		return nil, err
	}
	if err := c.compile(ctx); err != nil {
		return nil, err
	}
	made := map[int]bool{}
	for _, f := range c.files {
		for n := range f.lines {
			made[n] = true
		}
	}
	h.printf("%d of %d removals are in one build\n", len(made), len(checks))
	tests, err := c.tests(ctx, made)
	if err != nil {
		return nil, err
	}
	caught := make([]bool, len(checks))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for n, one := range checks {
		if made[n] && tests[one.folder] != "" {
			group.Go(func() error {
				caught[n] = c.notices(ctx, n, one, tests[one.folder])
				return nil
			})
		}
	}
	_ = group.Wait() // none returns an error
	for n, one := range checks {
		if !caught[n] {
			left = append(left, one)
		}
	}
	return left, nil
}

// prepare finds what of each file can be switched.
func (c *common) prepare() error {
	modules, err := findModules(c.h.root)
	if err != nil {
		return err
	}
	byFile := map[string][]int{}
	for n, one := range c.checks {
		if strings.HasSuffix(one.file, ".go") && moduleOf(modules, one.file) == "." {
			byFile[one.file] = append(byFile[one.file], n)
		}
	}
	for file, numbers := range byFile {
		src, err := os.ReadFile(filepath.Join(c.h.root, filepath.FromSlash(file)))
		if err != nil {
			return err
		}
		before, err := outlineOf(string(src))
		if err != nil {
			return err
		}
		for _, n := range numbers {
			mutant, err := c.checks[n].apply(string(src))
			if err != nil {
				return fmt.Errorf("%s: %w", c.checks[n].name, err)
			}
			if e := editOf(n, string(src), mutant); e.place(string(src), before) {
				c.edits[file] = append(c.edits[file], e)
			}
		}
	}
	return nil
}

// overlay writes the switched files and returns the overlay that has them.
func (c *common) overlay() (string, error) {
	replace := map[string]string{}
	write := func(file, text string) error {
		made := filepath.Join(c.dir, "src", strings.ReplaceAll(file, "/", "__"))
		replace[filepath.Join(c.h.root, filepath.FromSlash(file))] = made
		return os.WriteFile(made, []byte(text), 0o600)
	}
	if err := os.MkdirAll(filepath.Join(c.dir, "src"), 0o700); err != nil {
		return "", err
	}
	if err := write(switchedPackage+"/switched.go", switchedSource); err != nil {
		return "", err
	}
	clear(c.files)
	for file, edits := range c.edits {
		if len(edits) == 0 {
			continue
		}
		src, err := os.ReadFile(filepath.Join(c.h.root, filepath.FromSlash(file)))
		if err != nil {
			return "", err
		}
		c.files[file] = switchFile(string(src), mainModule, nest(edits))
		if err := write(file, c.files[file].text); err != nil {
			return "", err
		}
	}
	spec, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(c.dir, "overlay.json")
	return name, os.WriteFile(name, spec, 0o600)
}

// environment has a go command use the overlay, and a cache that goes with it.
func (c *common) environment() []string {
	flags := strings.TrimSpace(os.Getenv("GOFLAGS") + " -overlay=" + filepath.Join(c.dir, "overlay.json"))
	return append(append(os.Environ(), "GOFLAGS="+flags), layer{c.h.cache, filepath.Join(c.dir, "cache")}.environment(c.h.program)...)
}

// complaint is a line of the compiler.
var complaint = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):\d+: `)

// compile builds the packages, and leaves out the removals that the compiler complains of.
func (c *common) compile(ctx context.Context) error {
	for range rounds {
		if _, err := c.overlay(); err != nil {
			return err
		}
		var out bytes.Buffer
		cmd := c.h.goCommand(ctx, ".", "build", "-o", c.dir+string(filepath.Separator), "./cmd/powerbox")
		cmd.Env, cmd.Stdout, cmd.Stderr = c.environment(), &out, &out
		err := cmd.Run()
		if err == nil {
			folders := map[string]bool{}
			for file := range c.files {
				folders["./"+path.Dir(file)] = true
			}
			all := c.h.goCommand(ctx, ".", append([]string{"build"}, slices.Sorted(maps.Keys(folders))...)...)
			all.Env, all.Stdout, all.Stderr = c.environment(), &out, &out
			err = all.Run()
		}
		if err == nil {
			c.program = filepath.Join(c.dir, "powerbox")
			return nil
		}
		if !c.leaveOut(out.String()) {
			return fmt.Errorf("a build with removals: %w\n%s", err, out.String())
		}
	}
	return fmt.Errorf("a build with removals fails after leaving some out %d times", rounds)
}

// leaveOut drops the removals that complaints are about, and reports whether it dropped any:
// the smallest at the line, or all of the file where there is none.
func (c *common) leaveOut(output string) bool {
	dropped := false
	for _, m := range complaint.FindAllStringSubmatch(output, -1) {
		line, err := strconv.Atoi(m[2])
		if err != nil {
			continue
		}
		for file, f := range c.files {
			if made := strings.ReplaceAll(file, "/", "__"); !strings.HasSuffix(m[1], made) && !sameFile(m[1], file) {
				continue
			}
			drop, size := -1, 1<<30
			for n, s := range f.lines {
				if s.at <= line && line <= s.end && s.size() < size {
					drop, size = n, s.size()
				}
			}
			before := len(c.edits[file])
			c.edits[file] = slices.DeleteFunc(c.edits[file], func(e *edit) bool { return drop < 0 || e.number == drop })
			dropped = dropped || len(c.edits[file]) < before
		}
	}
	return dropped
}

// sameFile reports whether the compiler, which names files from the root or from elsewhere,
// means the file.
func sameFile(said, file string) bool {
	said = strings.TrimPrefix(filepath.ToSlash(said), "./")
	return said == file || strings.HasSuffix(said, "/"+file)
}

// tests builds the tests of the folders that removals name.
func (c *common) tests(ctx context.Context, made map[int]bool) (map[string]string, error) {
	out := map[string]string{}
	for n := range made {
		out[c.checks[n].folder] = ""
	}
	for n, folder := range slices.Sorted(maps.Keys(out)) {
		file := filepath.Join(c.dir, fmt.Sprintf("t%d.test", n))
		var said bytes.Buffer
		cmd := c.h.goCommand(ctx, folder, "test", "-c", "-vet=off", "-o", file, ".")
		cmd.Env, cmd.Stdout, cmd.Stderr = c.environment(), &said, &said
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("the tests of %s with removals: %w\n%s", folder, err, said.String())
		}
		out[folder] = file
	}
	return out, nil
}

// notices reports whether the test of a removal fails with it.
func (c *common) notices(ctx context.Context, n int, one check, test string) bool {
	cmd := c.h.goCommand(ctx, one.folder, "tool", "test2json", "-p", one.folder, test, "-test.run", runPattern(one.test), "-test.v=test2json", "-test.count=1", "-test.timeout", removalTime)
	cmd.Env = append(c.environment(), "POWERBOX_REMOVED="+strconv.Itoa(n), "E2E_PROGRAM="+c.program)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, io.Discard
	exit := cmd.Run()
	caught, err := one.verdict(out.String(), exit)
	var ended *exec.ExitError
	if err != nil || exit != nil && !errors.As(exit, &ended) {
		return false
	}
	if caught {
		c.h.printf("caught    %s: %s:%s fails\n", one.name, one.folder, one.test)
	}
	return caught
}
