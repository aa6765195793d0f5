package catalogue

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func sealer(t testing.TB, fill byte) *Sealer {
	t.Helper()
	s, err := NewSealer(bytes.Repeat([]byte{fill}, SealKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNewSealerRefusesOtherKeyLengths(t *testing.T) {
	for _, n := range []int{0, 16, 31, 33} {
		if _, err := NewSealer(make([]byte, n)); err == nil {
			t.Errorf("%d bytes were accepted", n)
		}
	}
}

func TestSEP19_HandleOpensWhereItWasSealed(t *testing.T) {
	s := sealer(t, 1)
	rapid.Check(t, func(t *rapid.T) {
		agent, root := rapid.String().Draw(t, "agent"), rapid.String().Draw(t, "root")
		id := rapid.StringN(0, 64, MaxIDBytes).Draw(t, "id")
		handle := s.Seal(agent, root, id)
		if again := s.Seal(agent, root, id); again != handle {
			t.Fatalf("sealed twice: %s and %s", handle, again)
		}
		if got, ok := s.Open(agent, root, handle); !ok || got != id {
			t.Fatalf("opened as %q, %t", got, ok)
		}
		if len(id) > 4 && strings.Contains(handle, id) {
			t.Fatal("the handle shows the id")
		}
	})
}

func TestSEP19_HandleIsBoundToAgentRootAndKey(t *testing.T) {
	s, other := sealer(t, 1), sealer(t, 2)
	rapid.Check(t, func(t *rapid.T) {
		// Few letters and all splits, so that joined names often coincide.
		name := rapid.StringMatching(`[ab]{0,3}`)
		agent, root, id := name.Draw(t, "agent"), name.Draw(t, "root"), name.Draw(t, "id")
		agent2, root2 := name.Draw(t, "other agent"), name.Draw(t, "other root")
		handle := s.Seal(agent, root, id)
		_, ok := s.Open(agent2, root2, handle)
		if same := agent == agent2 && root == root2; ok != same {
			t.Fatalf("sealed for (%q, %q), opened for (%q, %q): %t", agent, root, agent2, root2, ok)
		}
		if _, ok := other.Open(agent, root, handle); ok {
			t.Fatal("opened with another key")
		}
	})
}

// Two roots, or two agents, never share a nonce: the handles have nothing in
// common by which they could be matched.
func TestSEP19_HandleDiffersByAgentAndRoot(t *testing.T) {
	s := sealer(t, 1)
	seen := map[string]string{}
	for _, of := range [][2]string{{"documents", "cap_1"}, {"documents", "cap_2"}, {"mail", "cap_1"}, {"documentscap_1", ""}} {
		nonce := s.Seal(of[0], of[1], "q1-sales")[:len(handlePrefix)+nonceBytes*4/3]
		if was, ok := seen[nonce]; ok {
			t.Errorf("%v and %s share a nonce", of, was)
		}
		seen[nonce] = of[0] + " " + of[1]
	}
}

func TestATK19_EveryOtherStringIsOneAnswer(t *testing.T) {
	s := sealer(t, 1)
	handle := s.Seal("documents", "cap_root", "q1-sales")
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(handle, "rh_"))
	if err != nil {
		t.Fatal(err)
	}
	tries := map[string]string{
		"nothing": "", "prefix alone": "rh_", "the id": "q1-sales", "a path": "../q1-sales", "a URL": "https://storage/q1-sales",
		"guess": "rh_" + strings.Repeat("A", len(handle)-3), "without prefix": handle[3:], "other prefix": "RH_" + handle[3:],
		"padded": handle + "=", "line break": handle[:20] + "\n" + handle[20:], "space": handle + " ",
		"standard alphabet": "rh_" + base64.RawStdEncoding.EncodeToString(bytes.Repeat([]byte{0xfb, 0xff}, len(raw)/2)),
		"cut":               handle[:len(handle)-4], "longer": handle + "AAAA", "huge": "rh_" + strings.Repeat("A", 1<<20),
		"too long an id": s.Seal("documents", "cap_root", strings.Repeat("x", MaxIDBytes+1)),
		"foreign root":   s.Seal("documents", "cap_other", "q1-sales"),
		"foreign agent":  s.Seal("mail", "cap_root", "q1-sales"),
	}
	for bit := range len(raw) * 8 {
		changed := bytes.Clone(raw)
		changed[bit/8] ^= 1 << (bit % 8)
		tries[fmt.Sprint("bit ", bit)] = "rh_" + base64.RawURLEncoding.EncodeToString(changed)
	}
	for name, try := range tries {
		if id, ok := s.Open("documents", "cap_root", try); ok || id != "" {
			t.Errorf("%s: opened as %q, %t", name, id, ok)
		}
	}
	if id, ok := s.Open("documents", "cap_root", handle); !ok || id != "q1-sales" {
		t.Errorf("the handle itself: %q, %t", id, ok)
	}
}

// A holder of the sealing half alone could make boxes with its own nonces;
// they are no handles, so that one resource has one handle.
func TestSEP19_NonceMustBeDerived(t *testing.T) {
	s := sealer(t, 1)
	nonce := make([]byte, nonceBytes)
	sealed := s.aead.Seal(nonce, nonce, pad("q1-sales", padBlock), frame("documents", "cap_root"))
	if id, ok := s.Open("documents", "cap_root", "rh_"+base64.RawURLEncoding.EncodeToString(sealed)); ok {
		t.Errorf("opened as %q", id)
	}
}

func TestSEP19_LengthDoesNotTell(t *testing.T) {
	s := sealer(t, 1)
	short, long := s.Seal("a", "r", "1"), s.Seal("a", "r", strings.Repeat("x", padBlock-2))
	if len(short) != len(long) {
		t.Errorf("lengths %d and %d", len(short), len(long))
	}
}

func TestSealerPrintsNoKey(t *testing.T) {
	s := sealer(t, 7)
	var b bytes.Buffer
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "sealer", s)
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "sealer", s)
	fmt.Fprintf(&b, "%v %+v %#v %s %d %x", s, s, s, s, s, s)
	for _, secret := range []string{"nonce", "aead", fmt.Sprintf("%x", s.nonce), fmt.Sprintf("%d", s.nonce)} {
		if strings.Contains(b.String(), secret) {
			t.Errorf("%s shows %s", b.String(), secret)
		}
	}
}

func FuzzOpenHandle(f *testing.F) {
	s := sealer(f, 1)
	f.Add(s.Seal("documents", "cap_root", "q1-sales"))
	f.Add(s.Seal("mail", "cap_root", "q1-sales"))
	f.Add("rh_")
	f.Add("q1-sales")
	f.Fuzz(func(t *testing.T, handle string) {
		id, ok := s.Open("documents", "cap_root", handle)
		if ok && s.Seal("documents", "cap_root", id) != handle || !ok && id != "" {
			t.Errorf("%q opened as %q, %t", handle, id, ok)
		}
	})
}

func BenchmarkOpenHandle(b *testing.B) {
	s := sealer(b, 1)
	for name, handle := range map[string]string{
		"good": s.Seal("documents", "cap_root", "q1-sales"), "foreign": s.Seal("documents", "cap_other", "q1-sales"), "malformed": "x",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s.Open("documents", "cap_root", handle)
			}
		})
	}
}
