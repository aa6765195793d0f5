package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// Progress tells a person how much of some files was read, and about when the rest
// will be. They are read one after the other.
type Progress struct {
	ctx   context.Context //nolint:containedctx // a reader is asked to end between two reads
	out   io.Writer       // nil if standard error is no terminal
	lines bool            // whether each figure is a line, where out is no terminal
	now   func() time.Time
	total int64 // bytes

	begun, told time.Time
	done        int64
}

// tellEvery is how long a person waits for the next figure, and tellLineEvery how
// long a log does for the next line.
const (
	tellEvery     = 200 * time.Millisecond
	tellLineEvery = 5 * time.Second
)

// ShowProgress prints progress of the files that are added to it on stderr where that is a terminal, or
// where it is asked for.
func (p *Program) ShowProgress(ctx context.Context, asked bool) *Progress {
	shown := &Progress{ctx: ctx, now: p.Now, begun: p.Now(), lines: !IsTerminal(p.Stderr)}
	if asked || !shown.lines {
		shown.out = Drawn(p.Stderr)
	}
	return shown
}

// Add returns the reader of one more file. Without the size of a file no progress is
// printed.
func (s *Progress) Add(in io.Reader) io.Reader {
	if size, ok := regular(in); ok {
		s.total += size
	} else {
		s.out = nil
	}
	return &shownReader{in, s}
}

// regular returns the size of a regular file.
func regular(in io.Reader) (int64, bool) {
	f, ok := in.(*os.File)
	if !ok {
		return 0, false
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	return info.Size(), true
}

// shownReader is one of the files.
type shownReader struct {
	in io.Reader
	of *Progress
}

// IsTerminal reports whether the output is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := Drawn(w).(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Read implements io.Reader. It fails once the program is asked to end.
func (r *shownReader) Read(b []byte) (int, error) {
	if err := r.of.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.in.Read(b)
	r.of.read(n)
	return n, err
}

// read tells of so many bytes more.
func (s *Progress) read(n int) {
	s.done += int64(n)
	every, form := tellEvery, "\r\x1b[K%s"
	if s.lines {
		every, form = tellLineEvery, "%s\n"
	}
	if now := s.now(); s.out != nil && now.Sub(s.told) >= every {
		s.told = now
		Printf(s.out, form, progressText(s.done, s.total, now.Sub(s.begun)))
	}
}

// Clear takes the last figure away.
func (s *Progress) Clear() {
	if s.out != nil && !s.lines {
		Printf(s.out, "\r\x1b[K")
	}
}

// progressText is a bar with the time that is left at the pace so far. A file may
// grow while it is read.
func progressText(done, total int64, taken time.Duration) string {
	total = max(total, done, 1)
	const width = 30
	bar := make([]byte, width)
	for i := range bar {
		bar[i] = ' '
		if int64(i)*total < done*width {
			bar[i] = '#'
		}
	}
	left := "?"
	if done > 0 && taken > 0 {
		left = time.Duration(float64(taken) * float64(total-done) / float64(done)).Round(time.Second).String()
	}
	return fmt.Sprintf("[%s] %3d %% of %.1f MiB, %s left", bar, 100*done/total, float64(total)/(1<<20), left)
}
