package premises

import (
	"errors"
	"fmt"
	"io"
)

// Story is what happened, as a reader sees it. A step that does not end as its
// author said makes the example fail.
type Story struct {
	// Steps are all, in order.
	Steps []Step

	out  io.Writer
	errs []error
}

// Step is one call and how it ended.
type Step struct {
	What   string
	Reason string // the code of the refusal; "" for an allowed call
}

// NewStory tells a story to a writer.
func NewStory(out io.Writer) *Story { return &Story{out: out} }

// Say prints a line.
func (s *Story) Say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// Allowed is a step that must succeed.
func (s *Story) Allowed(what, answer string, err error) {
	s.Steps = append(s.Steps, Step{what, Reason(err)})
	if err != nil {
		s.errs = append(s.errs, fmt.Errorf("%s: %w", what, err))
		s.Say("  %-66s FAILED: %v", what, err)
		return
	}
	s.Say("  %-66s allowed: %s", what, answer)
}

// Refused is a step that must be refused for one reason.
func (s *Story) Refused(what, reason string, err error) {
	got := Reason(err)
	s.Steps = append(s.Steps, Step{what, got})
	if got != reason {
		s.errs = append(s.errs, fmt.Errorf("%s: want the refusal %s, got %q: %w", what, reason, got, errors.Join(err, errors.New("not refused so"))))
		s.Say("  %-66s WRONG: %v", what, err)
		return
	}
	s.Say("  %-66s refused: %s", what, got)
}

// Fail notes that something else went wrong.
func (s *Story) Fail(format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf(format, args...))
	s.Say("  WRONG: "+format, args...)
}

// Reasons are how the steps ended: the codes of refusals, "" for allowed calls.
func (s *Story) Reasons() []string {
	var all []string
	for _, step := range s.Steps {
		all = append(all, step.Reason)
	}
	return all
}

// Err is everything that did not go as it must, nil for nothing.
func (s *Story) Err() error { return errors.Join(s.errs...) }
