package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A frame is magic, number of the batch (8 bytes), flags (1), length of the
// payload (4), CRC-32C of these and the payload (4), payload. Numbers are big
// endian. A batch is what one fsync covers; its last frame has flagLast. Behind it is
// the batch's mark (see mark.go).
var magic = []byte("PBR1")

const (
	frameHeader = 4 + 8 + 1 + 4 + 4
	flagLast    = 1
	flagMark    = 2
	// maxRecord is the size of the largest record in bytes.
	maxRecord = 4 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frame is one record in a segment.
type frame struct {
	batch   uint64
	last    bool
	payload []byte
	size    int // of the whole frame, with the mark behind it
}

func appendFrame(to []byte, batch uint64, last bool, payload []byte) []byte {
	at := len(to)
	to = append(append(to, make([]byte, frameHeader)...), payload...)
	putHeader(to[at:], batch, last)
	return to
}

// putHeader makes a frame of a payload with room for the header before it.
func putHeader(frame []byte, batch uint64, last bool) {
	flag := byte(0)
	if last {
		flag = flagLast
	}
	putFlagged(frame, batch, flag)
}

func putFlagged(frame []byte, batch uint64, flag byte) {
	payload := frame[frameHeader:]
	copy(frame, magic)
	binary.BigEndian.PutUint64(frame[4:], batch)
	frame[12] = flag
	binary.BigEndian.PutUint32(frame[13:], uint32(len(payload))) // at most maxRecord
	binary.BigEndian.PutUint32(frame[17:], checksum(frame[4:17], payload))
}

func checksum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
}

// readFrame reads the frame that data begins with, with its mark, and false where
// there is none that is whole.
func readFrame(data []byte) (frame, bool) {
	f, ok := readFlagged(data)
	if !ok || data[12] > flagLast {
		return frame{}, false
	}
	if m, ok := readMark(data[f.size:]); ok && f.last && m.batch == f.batch {
		f.size += markSize
	}
	return f, true
}

// readFlagged reads a frame, or a mark.
func readFlagged(data []byte) (frame, bool) {
	if len(data) < frameHeader || !bytes.HasPrefix(data, magic) {
		return frame{}, false
	}
	length := int(binary.BigEndian.Uint32(data[13:]))
	if length > maxRecord || length > len(data)-frameHeader {
		return frame{}, false
	}
	payload := data[frameHeader : frameHeader+length]
	if checksum(data[4:17], payload) != binary.BigEndian.Uint32(data[17:]) {
		return frame{}, false
	}
	return frame{binary.BigEndian.Uint64(data[4:]), data[12] == flagLast, payload, frameHeader + length}, true
}

// ErrDamaged says that records that were acknowledged cannot be read. [Check] says
// which ones are whole, and [Salvage] keeps them.
var ErrDamaged = errors.New("the spool is damaged")

// readSegment reads the frames of a segment that follow a frame before them. Of
// the last segment it returns how many bytes are good: a batch that is not whole
// was never acknowledged, unless its mark or a later batch follows. Both were begun
// only when it was on the disk.
func readSegment(data []byte, before frame, isLast bool) (frames []frame, good int, err error) {
	previous := before
	whole := 0 // frames and bytes up to the end of the last whole batch
	for at := 0; at < len(data); {
		f, ok := readFrame(data[at:])
		if !ok || f.batch != next(previous) {
			if !isLast || follows(data[at:], next(previous)) {
				return nil, 0, fmt.Errorf("%w at byte %d", ErrDamaged, at)
			}
			break
		}
		frames, previous = append(frames, f), f
		at += f.size
		if f.last {
			whole, good = len(frames), at
		}
	}
	if !isLast && whole != len(frames) {
		return nil, 0, fmt.Errorf("%w: its last batch is not whole", ErrDamaged)
	}
	return frames[:whole], good, nil
}

// next is the batch of the frame after f.
func next(f frame) uint64 {
	if f.last {
		return f.batch + 1
	}
	return f.batch
}

// follows reports whether somewhere in data there is the mark of a batch, or a frame
// of a later one.
func follows(data []byte, batch uint64) bool {
	return nextWhole(data, func(d []byte) bool {
		f, ok := readFrame(d)
		return ok && f.batch > batch
	}) < len(data) || lastMark(data, batch).batch >= batch
}
