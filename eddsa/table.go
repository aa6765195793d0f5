package eddsa

import (
	"bytes"
	"crypto/sha512"
	"runtime"
	"sync/atomic"

	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/curve/scalar"
)

const (
	// tableEvery is how many uses of a key pay for a table of its multiples: to work it
	// out takes about ten times what one use saves.
	tableEvery = 32
	// maxTables bounds what all tables of the process take, at 40 KiB each.
	maxTables = 256
)

// tables is how many tables there are.
var tables atomic.Int32

// table holds multiples of a public key's inverse, so that no point must be doubled to
// multiply it. All of it is public: nothing depends on how long a multiplication takes.
type table struct {
	public   [PublicKeySize]byte
	inverses *curve.EdwardsBasepointTable
}

// newTable returns the table of a key, or nil where that is not a point.
func newTable(public [PublicKeySize]byte) *table {
	var point curve.EdwardsPoint
	if _, err := point.SetCompressedY((*curve.CompressedEdwardsY)(&public)); err != nil {
		return nil
	}
	return &table{public, curve.NewEdwardsBasepointTable(point.Neg(&point))}
}

// placed returns the table of a key, or nil where that is not a point or where there are
// as many tables as there may be. Its place is free again when the table is no longer held.
func placed(public [PublicKeySize]byte) *table {
	if tables.Add(1) <= maxTables {
		if t := newTable(public); t != nil {
			runtime.AddCleanup(t, func(n int32) { tables.Add(n) }, -1)
			return t
		}
	}
	tables.Add(-1)
	return nil
}

// verify is RFC 8032 section 5.1.7 by [rule]: S below the order, and the bytes of
// S times the base point less H(R, A, M) times the key are those of R.
func (t *table) verify(message, signature []byte) bool {
	if len(signature) != SignatureSize || !scalar.ScMinimalVartime(signature[32:]) {
		return false
	}
	hash := sha512.New()
	hash.Write(signature[:32])
	hash.Write(t.public[:])
	hash.Write(message)
	var room [sha512.Size]byte
	var s, h scalar.Scalar
	_, err := s.SetBytesModOrder(signature[32:])
	_, wide := h.SetBytesModOrderWide(hash.Sum(room[:0]))
	var sum, multiple curve.EdwardsPoint
	sum.Add(sum.MulBasepoint(curve.ED25519_BASEPOINT_TABLE, &s), multiple.MulBasepoint(t.inverses, &h))
	var r curve.CompressedEdwardsY
	r.SetEdwardsPoint(&sum)
	return err == nil && wide == nil && bytes.Equal(r[:], signature[:32])
}
