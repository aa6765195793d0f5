package main

import (
	"bytes"
	"io"
)

// libraryLog is what the standard library says by itself. What net/http says of bytes that
// came on a connection when nobody had asked for anything shows the bytes: an answer that
// is nobody's is not for whoever reads the log either (ATK-31).
type libraryLog struct{ to io.Writer }

// Write implements [io.Writer], for one line at a time.
func (l libraryLog) Write(line []byte) (int, error) {
	out := line
	if said, _, found := bytes.Cut(line, []byte("Unsolicited response received on idle HTTP channel")); found {
		out = append(bytes.Clone(said), "a connection was closed on which another server wrote what nobody had asked for\n"...)
	}
	_, err := l.to.Write(out)
	return len(line), err
}
