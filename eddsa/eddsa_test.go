package eddsa_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/hex"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox/eddsa"
)

// check compares every way of verification with crypto/ed25519, and returns what
// that says.
func check(t interface {
	Helper()
	Errorf(format string, args ...any)
}, public, message, signature []byte,
) bool {
	t.Helper()
	want := ed25519.Verify(public, message, signature)
	if got := eddsa.Verify(public, message, signature); got != want {
		t.Errorf("Verify(%x, %q, %x) is %t; crypto/ed25519 says %t", public, message, signature, got, want)
	}
	key := eddsa.NewKey([32]byte(public))
	for use := range 3 {
		if got := key.Verify(message, signature); got != want {
			t.Errorf("use %d of key %x, %q, %x: %t; crypto/ed25519 says %t", use+1, public, message, signature, got, want)
		}
	}
	if got, point := eddsa.VerifyByTable([32]byte(public), message, signature); got != want || !point && want {
		t.Errorf("by a table, key %x, %q, %x: %t, a point: %t; crypto/ed25519 says %t", public, message, signature, got, point, want)
	}
	return want
}

// TestVectors are the cases on which implementations disagree: points of small
// order and of mixed order, encodings that are not canonical, in every
// combination. They come from filippo.io/mostly-harmless/ed25519vectors, which
// the tests of crypto/ed25519 use and from which C2SP's CCTV vectors were made.
func TestVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	n, accepted := 0, 0
	for line := range strings.Lines(string(data)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		n++
		if check(t, unhex(t, fields[0]), []byte(fields[2]), unhex(t, fields[1])) {
			accepted++
		}
	}
	if n != 768 || accepted == 0 || accepted == n {
		t.Errorf("%d vectors, of which %d are accepted; want 768 with both answers", n, accepted)
	}
}

// published checks every way of verification against a file of published vectors: key,
// signature, message, and further words that known judges. It returns how many are accepted.
func published(t *testing.T, file string, lines int, known func(line int, accepted bool, words []string)) (accepted int) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		for i := range words[:3] {
			words[i] = strings.TrimPrefix(words[i], "-") // an empty one
		}
		ok := check(t, unhex(t, words[0]), unhex(t, words[2]), unhex(t, words[1]))
		if ok {
			accepted++
		}
		known(n, ok, words[3:])
		n++
	}
	if n != lines {
		t.Errorf("%s has %d vectors; want %d", file, n, lines)
	}
	return accepted
}

// TestCCTV are all cases of points of small and of mixed order, encoded in every way.
func TestCCTV(t *testing.T) {
	if n := published(t, "testdata/cctv.txt", 914, func(int, bool, []string) {}); n != 208 {
		t.Errorf("%d vectors are accepted; want 208, as crypto/ed25519 does", n)
	}
}

// TestWycheproof are the vectors of Project Wycheproof with their verdicts.
func TestWycheproof(t *testing.T) {
	published(t, "testdata/wycheproof.txt", 145, func(line int, accepted bool, words []string) {
		if want := words[0] == "valid"; accepted != want {
			t.Errorf("vector %d: accepted is %t; Wycheproof says %s", line+1, accepted, words[0])
		}
	})
}

// TestSpeccheck are the 12 cases of "Taming the many EdDSAs". The wanted answers are those
// that its authors published for Go.
func TestSpeccheck(t *testing.T) {
	const want = "VVVVXXXXXXXV"
	published(t, "testdata/speccheck.txt", len(want), func(line int, accepted bool, _ []string) {
		if accepted != (want[line] == 'V') {
			t.Errorf("case %d: accepted is %t; want %c", line, accepted, want[line])
		}
	})
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// smallOrder are all encodings of the eight points of small order: canonical
// ones first, then those with the sign of zero set or with y beyond the prime.
var smallOrder = []string{
	"0100000000000000000000000000000000000000000000000000000000000000",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0000000000000000000000000000000000000000000000000000000000000080",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
	"0100000000000000000000000000000000000000000000000000000000000080",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
}

// TestSmallOrder tries every pair of encodings of small order as key and R, with
// S zero and with S the order, on messages some of which solve the equation.
func TestSmallOrder(t *testing.T) {
	accepted := 0
	for _, a := range smallOrder {
		for _, r := range smallOrder {
			for m := range byte(16) {
				for _, s := range [][]byte{make([]byte, 32), order(1)} {
					if check(t, unhex(t, a), []byte{m}, append(unhex(t, r), s...)) {
						accepted++
					}
				}
			}
		}
	}
	if accepted == 0 {
		t.Error("none of the signatures is accepted: the cases miss what they are for")
	}
}

// order returns the order of the base point times n, little endian.
func order(n int64) []byte {
	l, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	b := l.Mul(l, big.NewInt(n)).FillBytes(make([]byte, 32))
	slices.Reverse(b)
	return b
}

// TestMalleable adds multiples of the order to S, which crypto/ed25519 refuses.
func TestMalleable(t *testing.T) {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
	public, _ := private.Public().(ed25519.PublicKey)
	message := []byte("allow")
	good := ed25519.Sign(private, message)
	if !check(t, public, message, good) {
		t.Fatal("a good signature is refused")
	}
	for n := range int64(14) {
		if check(t, public, message, addToS(good, order(n+1))) {
			t.Errorf("S plus %d times the order is accepted", n+1)
		}
	}
}

func addToS(signature, n []byte) []byte {
	out := slices.Clone(signature)
	carry := 0
	for i := range 32 {
		carry += int(out[32+i]) + int(n[i])
		out[32+i] = byte(carry)
		carry >>= 8
	}
	return out
}

// TestSignOfR signs R with its sign turned: the equation holds for R as it was, so that
// the two compared values differ in one bit.
func TestSignOfR(t *testing.T) {
	key, r := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32)), ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, 32))
	message := []byte("allow")
	for _, turned := range []byte{0, 1 << 7} {
		encoded := bytes.Clone(r[32:])
		encoded[31] ^= turned
		hash := sha512.Sum512(slices.Concat(encoded, key[32:], message))
		s := new(big.Int).Mul(number(hash[:]), exponent(key))
		s.Add(s, exponent(r)).Mod(s, number(order(1)))
		bytesOfS := s.FillBytes(make([]byte, 32))
		slices.Reverse(bytesOfS)
		if accepted := check(t, key[32:], message, append(encoded, bytesOfS...)); accepted != (turned == 0) {
			t.Errorf("R with %x turned: %t", turned, accepted)
		}
	}
}

// number reads little endian.
func number(b []byte) *big.Int {
	b = slices.Clone(b)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

// exponent returns what the public key of k is a multiple of the base point by (RFC 8032
// section 5.1.5).
func exponent(k ed25519.PrivateKey) *big.Int {
	hash := sha512.Sum512(k.Seed())
	hash[0] &= 248
	hash[31] = hash[31]&127 | 64
	return number(hash[:32])
}

func TestLengths(t *testing.T) {
	private := ed25519.NewKeyFromSeed(make([]byte, 32))
	public, _ := private.Public().(ed25519.PublicKey)
	signature := ed25519.Sign(private, nil)
	for _, n := range []int{0, 31, 33} {
		if eddsa.Verify(append(bytes.Clone(public), 0)[:n], nil, signature) {
			t.Errorf("a key of %d bytes verifies", n)
		}
	}
	for _, n := range []int{0, 32, 63, 65} {
		check(t, public, nil, append(bytes.Clone(signature), 0)[:n])
	}
}

// TestDifferential makes a signature, or something like one, and changes it.
func TestDifferential(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		private := ed25519.NewKeyFromSeed(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed"))
		public := bytes.Clone(private[32:])
		message := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "message")
		signature := ed25519.Sign(private, message)
		switch rapid.IntRange(0, 6).Draw(t, "change") {
		case 1:
			flip(t, public)
		case 2:
			flip(t, signature)
		case 3:
			copy(public, rapid.SampledFrom(points).Draw(t, "key"))
		case 4:
			copy(signature, rapid.SampledFrom(points).Draw(t, "R"))
		case 5:
			signature = addToS(signature, order(rapid.Int64Range(1, 14).Draw(t, "multiple")))
		case 6:
			copy(signature[32:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "S"))
		}
		check(t, public, message, signature)
	})
}

func flip(t *rapid.T, b []byte) {
	i := rapid.IntRange(0, len(b)*8-1).Draw(t, "bit")
	b[i/8] ^= 1 << (i % 8)
}

// points are the encodings of small order as bytes.
var points = func() (out [][]byte) {
	for _, s := range smallOrder {
		b, _ := hex.DecodeString(s)
		out = append(out, b)
	}
	return out
}()

// FuzzVerify gives whatever bytes to every way of verification, as they are and
// with a key that really signed.
func FuzzVerify(f *testing.F) {
	private := ed25519.NewKeyFromSeed(make([]byte, 32))
	f.Add([]byte(private[32:]), []byte("m"), ed25519.Sign(private, []byte("m")))
	f.Add(points[2], []byte("m"), append(bytes.Clone(points[10]), make([]byte, 32)...))
	f.Fuzz(func(t *testing.T, public, message, signature []byte) {
		if len(public) != eddsa.PublicKeySize {
			if eddsa.Verify(public, message, signature) {
				t.Error("a key of another length verifies")
			}
			return
		}
		check(t, public, message, signature)
		seed := sha512.Sum512_256(public)
		signer := ed25519.NewKeyFromSeed(seed[:])
		if !check(t, signer[32:], message, ed25519.Sign(signer, message)) {
			t.Error("a good signature is refused")
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	private := ed25519.NewKeyFromSeed(make([]byte, 32))
	public, message := []byte(private[32:]), make([]byte, 600)
	signature := ed25519.Sign(private, message)
	key, often := eddsa.NewKey([32]byte(public)), eddsa.NewKey([32]byte(public))
	for range eddsa.TableEvery {
		often.Verify(message, signature)
	}
	for name, verify := range map[string]func() bool{
		"crypto": func() bool { return ed25519.Verify(public, message, signature) },
		"once":   func() bool { return eddsa.Verify(public, message, signature) },
		"again": func() bool {
			if key.Tabulated() {
				key = eddsa.NewKey([32]byte(public))
				key.Verify(message, signature)
			}
			return key.Verify(message, signature)
		},
		"often": func() bool { return often.Verify(message, signature) },
		"expand and": func() bool {
			k := eddsa.NewKey([32]byte(public))
			first := k.Verify(message, signature)
			return k.Verify(message, signature) && first
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if !verify() {
					b.Fatal("refused")
				}
			}
		})
	}
}
