package cli

import (
	"bytes"
	"log/slog"
)

// libraryLog turns lines that libraries write to the log of the standard library into lines of
// slog, for programs that read the log. net/http logs the bytes of a response that belongs to no
// request. Such bytes must not reach the log (ATK-31).
type libraryLog struct{ to *slog.Logger }

// Write implements [io.Writer], for one line at a time.
func (l libraryLog) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	if said, _, found := bytes.Cut(line, []byte("Unsolicited response received on idle HTTP channel")); found {
		text = string(said) + "a connection was closed on which another server wrote what nobody had asked for"
	}
	l.to.Warn(text) //nolint:sloglint // the message is the library's
	return len(line), nil
}
