package spool

import (
	"encoding/binary"
)

// A mark is a frame with flagMark behind a batch. It is written when the batch is on
// the disk and before anybody is told so, and it is not waited for. A batch that has
// one was acknowledged, so that it is damaged where it is not whole. Without one
// damage cannot be told from a torn write.
type mark struct {
	batch uint64
	until uint64 // number of the record that comes after the batch
}

const markSize = frameHeader + 8

func appendMark(to []byte, m mark) []byte {
	at := len(to)
	to = binary.BigEndian.AppendUint64(append(to, make([]byte, frameHeader)...), m.until)
	putFlagged(to[at:], m.batch, flagMark)
	return to
}

// readMark reads the mark that data begins with.
func readMark(data []byte) (mark, bool) {
	f, ok := readFlagged(data)
	if !ok || data[12] != flagMark || f.size != markSize {
		return mark{}, false
	}
	return mark{f.batch, binary.BigEndian.Uint64(f.payload)}, true
}

// lastMark is the last mark in data of a batch or one behind it, and zero where there
// is none.
func lastMark(data []byte, batch uint64) (last mark) {
	for {
		at := nextWhole(data, func(d []byte) bool {
			m, ok := readMark(d)
			return ok && m.batch >= batch && m.batch >= last.batch
		})
		if at == len(data) {
			return last
		}
		last, _ = readMark(data[at:])
		data = data[at+markSize:]
	}
}
