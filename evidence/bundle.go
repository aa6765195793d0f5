package evidence

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"

	"golang.org/x/mod/sumdb/tlog"
)

// bundleForm is the format of a bundle: JSON lines, each canonical (RFC 8785)
// and ended by a line feed, in this order:
//
//	{"format":"powerbox-evidence-bundle/v1","keys":[JWK, ...],"origin":"..."}, and
//	  "from":{"hashes":"base64","size":N} where it begins behind N entries
//	one line per record, the stored bytes, in the order of the log; behind it
//	{"body":"base64","key":"base64"} where it has a detached body that is shown
//	{"leaves":"base64 of up to 1024 leaf hashes"}, as many as are needed
//	{"checkpoint":"signed note"}
//
// The leaf hashes come from the stored tree, not from the records. Their root is
// signed, so they say for every record whether it is the one that was logged,
// and a record that is missing, changed or moved can be named.
const bundleForm = "powerbox-evidence-bundle/v1"

const (
	// maxLine is the size in bytes of the largest line of a bundle.
	maxLine = 1 << 20
	// leavesPerLine keeps a line with leaf hashes under 64 KiB.
	leavesPerLine = 1024
)

// The beginnings by which the lines behind the records are known. No canonical
// record begins so: its first member is action_type.
const (
	leavesMark     = `{"leaves":`
	checkpointMark = `{"checkpoint":`
)

type headerLine struct {
	Format string    `json:"format"`
	From   *fromLine `json:"from,omitempty"`
	Keys   []Key     `json:"keys"`
	Origin string    `json:"origin"`
}

type leavesLine struct {
	Leaves string `json:"leaves"`
}

type checkpointLine struct {
	Checkpoint string `json:"checkpoint"`
}

// Export is what goes into a bundle (EXT-41).
type Export struct {
	Keys       []Key                    // the public keys that signed the records, for information
	Records    iter.Seq2[[]byte, error] // stored bytes of every record that the checkpoint covers, in log order
	Hashes     tlog.HashReader          // the stored tree
	Checkpoint []byte                   // signed note; covers the exported records
	From       int64                    // entries before the exported ones; 0 for a bundle of everything
	// Body returns the body of the record that was yielded last, nil where it has
	// none or none is left. Optional; without it bodies stay where they are.
	Body func() *Body
}

// WriteBundle writes a bundle. It writes the stored bytes and judges nothing: a
// damaged store gives a bundle in which [Verify] finds the damage.
func WriteBundle(w io.Writer, export Export) error {
	text, _, _ := strings.Cut(string(export.Checkpoint), "\n\n")
	checkpoint, err := parseCheckpoint(text + "\n")
	if err != nil {
		return err
	}
	out := bundleWriter{out: bufio.NewWriter(w)}
	from, err := readFrom(export.From, export.Hashes)
	if err != nil {
		return err
	}
	out.value(headerLine{Format: bundleForm, From: from, Keys: append([]Key{}, export.Keys...), Origin: checkpoint.Origin})
	for record, err := range export.Records {
		if err != nil {
			return fmt.Errorf("evidence: reading records for the bundle: %w", err)
		}
		out.line(record)
		if export.Body == nil {
			continue
		}
		if body := export.Body(); body != nil {
			out.value(body.line())
		}
	}
	for first := export.From; first < checkpoint.Size; first += leavesPerLine {
		leaves, err := readLeaves(export.Hashes, first, min(checkpoint.Size, first+leavesPerLine))
		if err != nil {
			return err
		}
		out.value(leavesLine{Leaves: base64.StdEncoding.EncodeToString(leaves)})
	}
	out.value(checkpointLine{Checkpoint: string(export.Checkpoint)})
	return errors.Join(out.err, out.out.Flush())
}

func readLeaves(hashes tlog.HashReader, from, to int64) ([]byte, error) {
	indexes := make([]int64, 0, to-from)
	for n := from; n < to; n++ {
		indexes = append(indexes, tlog.StoredHashIndex(0, n))
	}
	read, err := hashes.ReadHashes(indexes)
	if err != nil {
		return nil, fmt.Errorf("evidence: leaf hashes %d to %d for the bundle: %w", from, to-1, err)
	}
	var leaves []byte
	for _, hash := range read {
		leaves = append(leaves, hash[:]...)
	}
	return leaves, nil
}

// bundleWriter keeps the first error, so that its callers need not look.
type bundleWriter struct {
	out *bufio.Writer
	err error
}

func (b *bundleWriter) line(data []byte) {
	if b.err == nil && bytes.ContainsRune(data, '\n') {
		b.err = errors.New("evidence: a stored record has a line feed in it and is no canonical JSON")
	}
	if b.err == nil {
		_, b.err = b.out.Write(append(data[:len(data):len(data)], '\n'))
	}
}

func (b *bundleWriter) value(value any) {
	data, err := canonicalValue(value)
	b.err = errors.Join(b.err, err)
	b.line(data)
}

func canonicalValue(value any) ([]byte, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	return canonical(data, maxLine)
}

// decodeExact reads a JSON object into a struct and accepts only what the
// struct would be written as: every member known, spelt exactly, present once,
// not null. Order and white space are free.
func decodeExact(data []byte, into any) error {
	given, err := canonical(data, maxLine)
	if err != nil {
		return err
	}
	return decodeLine(given, into)
}

// decodeLine is [decodeExact] for a line of a bundle, which is canonical.
func decodeLine(line []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("evidence: %w", err)
	}
	if again, err := canonicalValue(into); err != nil || !bytes.Equal(again, line) {
		return errors.New("evidence: not in its one form: a member is misspelt, missing, repeated, null, or out of RFC 8785 order")
	}
	return nil
}

// lineReader cuts a bundle into lines, each with its line feed taken off.
type lineReader struct {
	in     *bufio.Reader
	number int
}

var (
	errLineTooLong = fmt.Errorf("line is longer than %d bytes", maxLine)
	errLineOpen    = errors.New("last line has no line feed: the file is cut off")
)

// lineBuffers hold the longest line. Most bundles are shorter, and a new buffer costs more than
// their records do.
var lineBuffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, maxLine) }}

// linesOf reads the lines of a bundle until done.
func linesOf(r io.Reader) (lines *lineReader, done func()) {
	in := lineBuffers.Get().(*bufio.Reader)
	in.Reset(r)
	return &lineReader{in: in}, func() {
		in.Reset(nil)
		lineBuffers.Put(in)
	}
}

// next returns io.EOF behind the last line. The bytes hold until the next call.
func (l *lineReader) next() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	l.number++
	switch {
	case err == nil:
		return line[:len(line)-1], nil
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, errLineTooLong
	case errors.Is(err, io.EOF) && len(line) > 0:
		return nil, errLineOpen
	}
	return nil, err
}
