package shell

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// judge holds the words of one command against the table.
type judge struct {
	place Place
	dirs  []string
	spec  spec
	acts  []Act

	flags map[string]bool // those that are set
	args  []piece         // words other than flags
}

// duration is the first argument of timeout.
var duration = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?[smh]?$`)

// wrapped returns the command that timeout runs, nil for any other command.
func wrapped(words []piece) []piece {
	if words[0].text == "timeout" && len(words) > 2 && !words[1].dynamic && duration.MatchString(words[1].text) && words[2].text != "cd" {
		return words[2:]
	}
	return nil
}

// judge returns the name of the command in the table, and collects its acts.
func (j *judge) judge(words []piece) (string, error) {
	name, rest, err := lookup(words)
	if err != nil {
		return "", err
	}
	j.spec, j.flags = table[name], map[string]bool{}
	if j.spec.anything {
		return name, nil
	}
	if err := j.split(name, rest); err != nil {
		return "", err
	}
	if strings.HasPrefix(name, "git ") {
		if err := j.repository(); err != nil {
			return "", err
		}
	}
	return name, j.spec.args(j)
}

// repository makes sure that git finds the repository by a .git, which no grant can write.
// A folder that looks like a bare repository has a configuration that names programs to run.
func (j *judge) repository() error {
	for _, dir := range j.dirs {
		for at := dir; ; at = path.Dir(at) {
			names, err := j.place.List(at)
			if err != nil {
				return unclear(CodeUnclear, "the folder %s cannot be listed: %v", at, err)
			}
			if slices.Contains(names, ".git") {
				break
			}
			if slices.Contains(names, "HEAD") && slices.Contains(names, "objects") || at == "/" {
				return unclear(CodeUnclear, "git would not find a .git at or above %s", dir)
			}
		}
	}
	return nil
}

// lookup finds the command of the table that the words begin with.
func lookup(words []piece) (string, []piece, error) {
	name, rest := words[0].text, words[1:]
	if name == "git" {
		for len(rest) > 0 && (rest[0].text == "--no-pager" || rest[0].text == "-P") {
			rest = rest[1:]
		}
	}
	if len(rest) > 0 && !rest[0].dynamic {
		if _, ok := table[name+" "+rest[0].text]; ok {
			return name + " " + rest[0].text, rest[1:], nil
		}
	}
	if _, ok := table[name]; ok {
		return name, rest, nil
	}
	if len(rest) > 0 && !rest[0].dynamic && slices.ContainsFunc(Names(), func(n string) bool { return strings.HasPrefix(n, name+" ") }) {
		return "", nil, unclear(CodeUnknown, "the command %s %s is not in the table; grant its exact words under run", name, quote(rest[0].text))
	}
	return "", nil, unclear(CodeUnknown, "the command %s is not in the table; grant its exact words under run", quote(name))
}

// split parts the flags from the arguments.
func (j *judge) split(name string, words []piece) error {
	if name == "find" { // its expression is no list of flags
		j.args = words
	}
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w.dynamic {
			return unclear(CodeUnclear, "an argument of %s is unclear: only the shell knows its value", name)
		}
		switch {
		case name == "find":
			continue
		case w.text == "--":
			for _, rest := range words[i+1:] {
				if rest.dynamic {
					return unclear(CodeUnclear, "an argument of %s is unclear: only the shell knows its value", name)
				}
				j.args = append(j.args, rest)
			}
			return nil
		case len(w.text) < 2 || w.text[0] != '-' || w.tilde:
			j.args = append(j.args, w)
			continue
		case j.spec.flagsFirst && len(j.args) > 0:
			return unclear(CodeFlag, "the flag %s of %s stands behind an argument, where some systems take it for a file", w.text, name)
		}
		used, err := j.flag(name, w.text, words[i+1:])
		if err != nil {
			return err
		}
		i += used
	}
	return nil
}

// flag reads one word of flags, and says how many further words it took.
func (j *judge) flag(name, text string, next []piece) (int, error) {
	if j.spec.single || strings.HasPrefix(text, "--") {
		key, value, has := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(text, "-"), "-"), "=")
		if !j.spec.single && len(key) == 1 { // an abbreviation of a flag that the table may not have
			return 0, unclear(CodeFlag, "the table does not have the flag --%s of %s; write it out", key, name)
		}
		return j.set(name, key, value, has, next)
	}
	if j.spec.number && strings.Trim(text[1:], "0123456789") == "" {
		return 0, nil
	}
	for i := 1; i < len(text); i++ {
		key := text[i : i+1]
		kind, ok := j.spec.flags[key]
		if !ok {
			return 0, unclear(CodeFlag, "the table does not have the flag -%s of %s; grant the exact words under run", key, name)
		}
		if kind == plain {
			j.flags[key] = true
			continue
		}
		return j.set(name, key, text[i+1:], i+1 < len(text), next)
	}
	return 0, nil
}

// set takes one flag with its value, which is the next word where has is false.
func (j *judge) set(name, key, value string, has bool, next []piece) (int, error) {
	kind, ok := j.spec.flags[key]
	if !ok {
		return 0, unclear(CodeFlag, "the table does not have the flag %s of %s; grant the exact words under run", quote(key), name)
	}
	j.flags[key] = true
	used := 0
	switch {
	case kind == plain && (!has || value == "true" || value == "false"), kind == optional:
		return 0, nil
	case kind == plain:
		return 0, unclear(CodeFlag, "the flag %s of %s takes no value", key, name)
	case !has && (len(next) == 0 || next[0].dynamic || next[0].glob):
		return 0, unclear(CodeUnclear, "the value of the flag %s of %s is unclear", key, name)
	case !has:
		value, used = next[0].text, 1
	case strings.HasPrefix(value, "~"):
		return 0, unclear(CodeUnclear, "some shells replace the ~ in the value of %s; write its path", key)
	}
	switch kind {
	case reads:
		return used, j.path(Read, value)
	case writes:
		return used, j.path(Write, value)
	default:
	}
	return used, nil
}

// path adds an act on a path, in every folder where the command can run.
func (j *judge) path(kind Kind, name string) error {
	if kind == Read && name == "-" || harmlessFile(name) {
		return nil
	}
	for _, dir := range j.dirs {
		to, err := j.place.Resolve(dir, name)
		if err != nil {
			return err
		}
		j.acts = append(j.acts, Act{kind, to})
	}
	return nil
}

func (j *judge) paths(kind Kind, args []piece) error {
	for _, a := range args {
		if err := j.path(kind, a.text); err != nil {
			return err
		}
	}
	return nil
}

// The ways in which commands take arguments.

func noArgs(j *judge) error {
	if len(j.args) > 0 {
		return unclear(CodeUnclear, "the argument %s cannot be judged", quote(j.args[0].text))
	}
	return nil
}

func anyArgs(*judge) error { return nil }

func readArgs(j *judge) error { return j.paths(Read, j.args) }

// folderArgs reads the folder where it runs, unless it is told another one.
func folderArgs(j *judge) error {
	if len(j.args) == 0 {
		return j.path(Read, ".")
	}
	return j.paths(Read, j.args)
}

func writeArgs(j *judge) error { return j.paths(Write, j.args) }

func deleteArgs(j *judge) error { return j.paths(Delete, j.args) }

// repositoryArgs reads the folder where it runs. Every argument may be a path.
func repositoryArgs(j *judge) error {
	if err := j.path(Read, "."); err != nil {
		return err
	}
	return j.paths(Read, j.args)
}

func repositoryOnly(j *judge) error {
	if err := noArgs(j); err != nil {
		return err
	}
	return j.path(Read, ".")
}

// patternArgs is a pattern and files, as grep has them.
func patternArgs(j *judge) error {
	files := j.args
	if !j.flags["e"] && !j.flags["f"] && !j.flags["regexp"] && !j.flags["file"] && !j.flags["files"] {
		if len(files) == 0 {
			return unclear(CodeUnclear, "the pattern is missing")
		}
		files = files[1:]
	}
	if len(files) == 0 && (j.spec.recursive || j.flags["r"] || j.flags["R"] || j.flags["recursive"]) {
		return j.path(Read, ".")
	}
	return j.paths(Read, files)
}

func copyArgs(j *judge) error { return j.transfer(Read) }

func moveArgs(j *judge) error { return j.transfer(Read, Delete) }

// transfer judges cp and mv. A target that is a folder gets a file of the source's name, and
// a link of that name would be followed.
func (j *judge) transfer(source ...Kind) error {
	if len(j.args) < 2 {
		return unclear(CodeUnclear, "source or target is missing")
	}
	last := j.args[len(j.args)-1].text
	for _, a := range j.args[:len(j.args)-1] {
		for _, kind := range source {
			if err := j.path(kind, a.text); err != nil {
				return err
			}
		}
		if err := j.path(Write, last+"/"+path.Base(a.text)); err != nil {
			return err
		}
	}
	return j.path(Write, last)
}

// uniqArgs is an input and an output.
func uniqArgs(j *judge) error {
	for i, a := range j.args {
		if err := j.path([]Kind{Read, Write}[min(i, 1)], a.text); err != nil {
			return err
		}
	}
	return nil
}

var importPath = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~/-]*$`)

// packageArgs are packages of Go: folders, files or import paths.
func packageArgs(j *judge) error {
	if err := j.path(Read, "."); err != nil {
		return err
	}
	for _, a := range j.args {
		base, all := strings.CutSuffix(a.text, "...")
		local := base == "." || base == ".." || strings.HasPrefix(base, "./") || strings.HasPrefix(base, "../") || path.IsAbs(base) || strings.HasSuffix(base, ".go")
		switch {
		case a.text == "...", base == "" && !all:
			return unclear(CodeUnclear, "the package %s cannot be judged", quote(a.text))
		case local:
			if err := j.path(Read, base); err != nil {
				return err
			}
		case !importPath.MatchString(base) || strings.Contains(base, ".."):
			return unclear(CodeUnclear, "the package %s cannot be judged", quote(a.text))
		}
	}
	return nil
}

// buildArgs writes a program to the folder where it runs, unless it is told another place.
func buildArgs(j *judge) error {
	if !j.flags["o"] {
		if err := j.path(Write, "."); err != nil {
			return err
		}
	}
	return packageArgs(j)
}

// formatArgs are files that are read, and written with the flag w.
func formatArgs(j *judge) error {
	kind := Read
	if j.flags["w"] {
		kind = Write
	}
	return j.paths(kind, j.args)
}

// goFmtArgs are packages whose files are written.
func goFmtArgs(j *judge) error {
	if err := packageArgs(j); err != nil {
		return err
	}
	for _, a := range j.acts {
		j.acts = append(j.acts, Act{Write, a.Target})
	}
	return nil
}

// urlArgs are URLs. Patterns in them, as curl has, name several hosts.
func urlArgs(j *judge) error {
	if len(j.args) == 0 {
		return unclear(CodeUnclear, "the URL is missing")
	}
	for _, a := range j.args {
		u, err := url.Parse(a.text)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || strings.ContainsAny(a.text, "{}[]\\ ") {
			return unclear(CodeUnclear, "%s is no plain URL with http or https", quote(a.text))
		}
		j.acts = append(j.acts, Act{Fetch, a.text})
	}
	return nil
}

// findTests are the parts of an expression of find that look and do nothing else; the value
// says whether one takes a word.
var findTests = map[string]bool{
	"-name": true, "-iname": true, "-path": true, "-ipath": true, "-type": true, "-maxdepth": true, "-mindepth": true,
	"-size": true, "-mtime": true, "-mmin": true, "-empty": false, "-print": false, "-print0": false, "-prune": false,
	"!": false, "-not": false, "-o": false, "-or": false, "-a": false, "-and": false, "(": false, ")": false, "-ls": false,
}

// findArgs are folders, then an expression.
func findArgs(j *judge) error {
	i := 0
	for ; i < len(j.args); i++ {
		if t := j.args[i].text; strings.HasPrefix(t, "-") || t == "!" || t == "(" {
			break
		}
		if err := j.path(Read, j.args[i].text); err != nil {
			return err
		}
	}
	if i == 0 {
		if err := j.path(Read, "."); err != nil {
			return err
		}
	}
	for ; i < len(j.args); i++ {
		takes, ok := findTests[j.args[i].text]
		if !ok {
			return unclear(CodeFlag, "the table does not have %s of find; it may run or delete", quote(j.args[i].text))
		}
		if takes {
			i++
		}
	}
	return nil
}

var sedScript = regexp.MustCompile(`^[0-9]+(,([0-9]+|\$))?p$`)

// sedArgs prints lines of files by number. Every other script of sed can write and run.
func sedArgs(j *judge) error {
	if !j.flags["n"] || len(j.args) == 0 || !sedScript.MatchString(j.args[0].text) {
		return unclear(CodeUnclear, "of sed, only sed -n 'FROM,TOp' is judged; other scripts can write files and run programs")
	}
	return j.paths(Read, j.args[1:])
}

// dateArgs is a format.
func dateArgs(j *judge) error {
	for _, a := range j.args {
		if !strings.HasPrefix(a.text, "+") {
			return unclear(CodeUnclear, "date with the argument %s can set the clock", quote(a.text))
		}
	}
	return nil
}

// messageArgs refuses a commit that would open an editor.
func messageArgs(j *judge) error {
	if !j.flags["m"] && !j.flags["message"] && !j.flags["no-edit"] && !j.flags["F"] {
		return unclear(CodeUnclear, "git commit without -m opens an editor")
	}
	return repositoryArgs(j)
}
