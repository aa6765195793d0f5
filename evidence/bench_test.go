package evidence

import (
	"bytes"
	"testing"
)

// BenchmarkSeal is the cost of a record without its store: canonical bytes,
// hash and Ed25519 signature.
func BenchmarkSeal(b *testing.B) {
	l := newTestLog(b)
	head, record := Genesis(ChainID{1}), fullRecord()
	for b.Loop() {
		sealed, err := Seal(head, record, l.signer)
		must(b, err)
		head = sealed.Head()
	}
}

// BenchmarkAppend is a record made provable: sealed, in the tree, under a signed
// checkpoint.
func BenchmarkAppend(b *testing.B) {
	l := newTestLog(b)
	for b.Loop() {
		l.add(1, fullRecord())
		l.signed()
	}
}

// BenchmarkVerify is the cost of one record of a bundle of a thousand.
func BenchmarkVerify(b *testing.B) {
	l := newTestLog(b).fill(1000, 1, 2, 3)
	bundle, trust := l.bundle(), l.trust()
	for n := 0; b.Loop(); n++ {
		if n%1000 == 0 {
			_, err := Verify(bytes.NewReader(bundle), trust)
			must(b, err)
		}
	}
}
