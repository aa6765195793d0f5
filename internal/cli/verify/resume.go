package verify

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/cli"
)

// resumeForm is what the file begins with; its size is that of a hash.
const resumeForm = "powerbox-evidence-checked/v1\n\n\n\n"

// resumed keeps, in a file, which signatures held: the form, the hash of the trust
// file, and then the leaf hash of each record. Records are added as they are
// checked, so an interruption loses the last few alone.
type resumed struct {
	file *os.File
	out  *bufio.Writer
}

// resume opens the file and gives the trust its memory. A file of another trust
// file begins anew; a partial line is left out.
func resume(name string, trustFile []byte, trust *evidence.Trust) (*resumed, error) {
	id := sha256.Sum256(trustFile)
	head := append([]byte(resumeForm), id[:]...)
	data, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(data) > 0 && !bytes.HasPrefix(data, []byte(resumeForm)) {
		return nil, cli.Invalid(fmt.Errorf("%s is no file of --resume; name one that is not there", name))
	}
	if !bytes.HasPrefix(data, head) {
		data = head
	}
	data = data[:len(data)/tlog.HashSize*tlog.HashSize]
	var known []tlog.Hash
	for leaf := range slices.Chunk(data[len(head):], tlog.HashSize) {
		known = append(known, tlog.Hash(leaf))
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	r := &resumed{file: f, out: bufio.NewWriter(f)}
	_, errSeek := f.Seek(int64(len(data)), 0)
	_, errHead := f.WriteAt(head, 0)
	if err := errors.Join(f.Truncate(int64(len(data))), errSeek, errHead); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	trust.Checked = evidence.NewChecked(func(leaf tlog.Hash) { _, _ = r.out.Write(leaf[:]) }, known...) // Close tells
	return r, nil
}

// Close writes the buffered rest, and returns the first failure.
func (r *resumed) Close() error { return errors.Join(r.out.Flush(), r.file.Close()) }
