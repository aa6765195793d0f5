package main

import (
	"bytes"
	"log/slog"
)

// libraryLog is what libraries say by themselves, on the log of the standard library: a line
// of ours like any other, for whoever reads the log by machine. What net/http says of bytes
// that came on a connection when nobody had asked for anything shows the bytes: an answer that
// is nobody's is not for whoever reads the log either (ATK-31).
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
