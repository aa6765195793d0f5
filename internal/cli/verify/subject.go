package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// subject is a program that a run scores: it answers questions, a line each.
type subject struct {
	name     string
	process  *exec.Cmd
	in       io.WriteCloser
	answers  chan answerLine // closed when it writes no more
	failed   error           // why; read after answers is closed
	patience time.Duration
	asked    int
}

// errSubjectEnded ends a run: the program is gone, or what it writes is not the protocol.
var errSubjectEnded = errors.New("the program cannot be asked any more")

func startSubject(ctx context.Context, command []string, patience time.Duration) (*subject, error) {
	if len(command) == 0 {
		return nil, errors.New("--against is empty; want a program with its arguments")
	}
	s := &subject{name: command[0], process: exec.CommandContext(ctx, command[0], command[1:]...), answers: make(chan answerLine), patience: patience} //nolint:gosec // the user names it
	s.process.Stderr = os.Stderr                                                                                                                       // its own words, written beside ours
	s.process.WaitDelay = time.Second
	var err error
	if s.in, err = s.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.process.Start(); err != nil {
		return nil, fmt.Errorf("--against: %w", err)
	}
	go s.read(out)
	return s, nil
}

// read passes on what the program answers, until it ends.
func (s *subject) read(out io.Reader) {
	defer close(s.answers)
	lines := linesOf(out)
	for lines.Scan() {
		var a answerLine
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			s.failed = fmt.Errorf("it wrote a line that is no answer: %w; want {\"id\":1,\"answer\":{...}}", err)
			return
		}
		s.answers <- a
	}
	s.failed = errors.Join(lines.Err(), errors.New("it ended its output"))
}

// answer implements [answerer].
func (s *subject) answer(kind string, question json.RawMessage) (map[string]json.RawMessage, error) {
	s.asked++
	line, err := json.Marshal(questionLine{s.asked, kind, question})
	if err != nil {
		return nil, err
	}
	late := time.NewTimer(s.patience)
	defer late.Stop()
	written := make(chan error, 1)
	go func() {
		_, err := s.in.Write(append(line, '\n'))
		written <- err
	}()
	for {
		select {
		case err := <-written:
			if err != nil {
				return nil, fmt.Errorf("%w: %s: %w", errSubjectEnded, s.name, err)
			}
			written = nil
		case a, more := <-s.answers:
			switch {
			case !more:
				return nil, fmt.Errorf("%w: %s: %w", errSubjectEnded, s.name, s.failed)
			case a.ID != s.asked:
				return nil, fmt.Errorf("%w: %s answered %d; want %d", errSubjectEnded, s.name, a.ID, s.asked)
			case a.Unsupported:
				return nil, errUnsupported
			case a.Error != "":
				return nil, fmt.Errorf("it says %q", a.Error)
			}
			return a.Answer, nil
		case <-late.C:
			return nil, fmt.Errorf("%w: %s took longer than %s", errSubjectEnded, s.name, s.patience)
		}
	}
}

// end has the program end: its input is over, and after a second so is it.
func (s *subject) end() {
	_ = s.in.Close()
	timer := time.AfterFunc(time.Second, func() { _ = s.process.Process.Kill() })
	defer timer.Stop()
	go func() {
		for range s.answers { // what it still writes is not read
		}
	}()
	_ = s.process.Wait() // how it ends is not scored; it closes the output, which a child may have open
}
