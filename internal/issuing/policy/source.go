package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	cedar "github.com/cedar-policy/cedar-go"
)

// MaxFileBytes is the size of the largest policy file, and maxNesting the
// deepest nesting of brackets in one: Cedar's parser has no bounds of its own.
const (
	MaxFileBytes = 256 << 10
	maxNesting   = 64
)

// statement is one policy with its place.
type statement struct {
	place    string // file:line
	policy   *cedar.Policy
	rest     *cedar.Policy // the part that is left where the head fits the request
	compiled condition     // rest again, as far as it needs no entities
	head     head
	forbid   bool
	lifetime time.Duration // 0: none
	approval string        // "": none
}

// readFile parses one file of policies.
func readFile(name string, text []byte) ([]*statement, error) {
	if len(text) > MaxFileBytes {
		return nil, fmt.Errorf("%s: %d bytes; want at most %d (split it)", name, len(text), MaxFileBytes)
	}
	if line := tooDeep(string(text)); line > 0 {
		return nil, fmt.Errorf("%s:%d: nested too deep; want at most %d levels of brackets", name, line, maxNesting)
	}
	list, err := cedar.NewPolicyListFromBytes(name, text)
	if err != nil {
		return nil, parseError(name, err)
	}
	var statements []*statement
	var errs []error
	taken := map[string]bool{}
	for _, p := range list {
		at := p.Position()
		rest := withoutHead(p)
		s := &statement{
			place:  fmt.Sprintf("%s:%d", name, at.Line),
			policy: p, rest: rest, compiled: compiled(rest), head: headOf(p), forbid: p.Effect() == cedar.Forbid,
		}
		if taken[s.place] {
			s.place += fmt.Sprintf(":%d", at.Column)
		}
		taken[s.place] = true
		if err := s.annotate(p.Annotations()); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.place, err))
		}
		statements = append(statements, s)
	}
	return statements, errors.Join(errs...)
}

// cedarPlace is how cedar-go says where a file is wrong.
var cedarPlace = regexp.MustCompile(`<input>:(\d+):\d+:? ?`)

// wantedToken is how cedar-go says which token it misses; the one before that is
// the token after.
var wantedToken = regexp.MustCompile(`^"(?s:.*)": exact got (.*) want (.*)$`)

func parseError(name string, err error) error {
	text := err.Error()
	line := "1"
	if m := cedarPlace.FindStringSubmatch(text); m != nil {
		line = m[1]
		text = strings.Replace(text, m[0], "", 1)
	}
	text = strings.TrimPrefix(text, "parser error: ")
	text = strings.TrimPrefix(text, "parse error at ")
	if m := wantedToken.FindStringSubmatch(text); m != nil {
		got := fmt.Sprintf("%q", m[1])
		if m[1] == "" {
			got = "the end of the file"
		}
		text = fmt.Sprintf("%s; want %q", got, m[2])
	}
	return fmt.Errorf("%s:%s: not a Cedar policy, at %s", name, line, text)
}

// tooDeep returns the line at which brackets are nested too deep, or 0. It
// skips strings and comments as Cedar does.
func tooDeep(text string) int {
	line, depth, quoted, comment := 1, 0, false, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\n':
			line++
			comment = false
		case comment:
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '/' && strings.HasPrefix(text[i:], "//"):
			comment = true
		case strings.IndexByte("([{", c) >= 0:
			if depth++; depth > maxNesting {
				return line
			}
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		}
	}
	return 0
}

// ApprovalHuman is the value of @approval that makes a request wait for a
// person (SEP-27).
const ApprovalHuman = "human"

// annotate reads the annotations that have an effect. An unknown one is an
// error: one that is misspelt would silently permit more than is meant.
func (s *statement) annotate(annotations cedar.Annotations) error {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		value := string(annotations[key])
		switch key {
		case "id", "description":
		case "maximum_lifetime":
			d, err := time.ParseDuration(value)
			if err != nil || d <= 0 || s.forbid {
				return fmt.Errorf("@maximum_lifetime(%q); want a positive duration such as \"30m\", on a permit", value)
			}
			s.lifetime = d
		case "approval":
			if value != ApprovalHuman || s.forbid {
				return fmt.Errorf("@approval(%q); want \"%s\", on a permit", value, ApprovalHuman)
			}
			s.approval = value
		default:
			return fmt.Errorf("annotation @%s is unknown; known are @approval, @description, @id, @maximum_lifetime", key)
		}
	}
	return nil
}

// digestOf is the SHA-256 over the files in order of their names, each name and
// text preceded by its length.
func digestOf(files map[string][]byte) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, part := range [][]byte{[]byte(name), files[name]} {
			var size [8]byte
			binary.BigEndian.PutUint64(size[:], uint64(len(part)))
			h.Write(size[:])
			h.Write(part)
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > 12 {
		names = append(names[:12:12], fmt.Sprintf("and %d more", len(names)-12))
	}
	return strings.Join(names, ", ")
}
