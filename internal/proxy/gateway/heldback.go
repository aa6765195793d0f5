package gateway

import (
	"io"
	"slices"
)

// splitter calls back for every event whose bytes it is shown.
type splitter interface {
	io.Writer
	Close()
	// Begun is how many of those bytes belong to an event that has begun and not ended.
	Begun() int
}

// heldBack keeps the bytes of an event until it has ended and was looked at. A caller that
// had a part of it would take that part for an event when the stream is cut (ATK-164).
type heldBack struct {
	none bool   // events pass as they come
	part []byte // of an event that has begun
	out  []byte // what the caller gets next
	err  error  // and then
}

// maxPart bounds an event with all its lines, in bytes.
const maxPart = 2 * maxAnswer

// pass returns how many of the bytes that came, and were looked at, pass as they are, with the
// error that came with them. begun is how many bytes belong to an event that has begun.
// If an event began before them, the bytes pass by [heldBack.read].
func (h *heldBack) pass(came []byte, begun int, err error) (int, error) {
	if h.none || len(h.part) == 0 && begun == 0 {
		return len(came), err
	}
	h.part, h.err = append(h.part, came...), err
	if ended := len(h.part) - begun; ended > 0 {
		h.out = slices.Clone(h.part[:ended])
		h.part = append(h.part[:0], h.part[ended:]...)
	}
	return 0, nil
}

// read gives the caller the next bytes.
func (h *heldBack) read(p []byte) (int, error) {
	if len(h.out) == 0 {
		return 0, h.err
	}
	n := copy(p, h.out)
	h.out = h.out[n:]
	return n, nil
}
