package keeper_test

import (
	"bufio"
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/powerbox-project/powerbox/internal/store/keeper"
	"github.com/powerbox-project/powerbox/internal/store/keeper/keepertest"
)

// behaves names how this test binary behaves as a program that keeps keys.
const behaves = "POWERBOX_KEEPER_TEST"

func TestMain(m *testing.M) {
	if how := os.Getenv(behaves); how != "" {
		program(how)
		return
	}
	os.Exit(m.Run())
}

// program keeps one key, whose seed it knows by its reference.
func program(how string) {
	key := ed25519.NewKeyFromSeed([]byte("a seed that a test program knows"))
	public, _ := (&jose.JSONWebKey{Key: key.Public()}).MarshalJSON()
	var held []string
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var q struct {
			ID          uint64
			Op, Message string
		}
		_ = json.Unmarshal(lines.Bytes(), &q)
		message, _ := base64.RawURLEncoding.DecodeString(q.Message)
		out := fmt.Sprintf(`{"id":%d,"algorithms":["Ed25519"],"key":"one","public":%s,"signature":%q}`, q.ID, public, base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, message)))
		if q.Op == "sign" {
			switch {
			case how == "hangs", how == "hangs once" && once():
				continue
			case how == "ends":
				os.Exit(3)
			case how == "says much":
				out = strings.Repeat("x", 1<<20)
			case how == "says no":
				out = fmt.Sprintf(`{"id":%d,"error":"the token is locked"}`, q.ID)
			case how == "answers others":
				out = `{"id":999}`
			case how == "turns round":
				if held = append(held, out); len(held) < 2 {
					continue
				}
				out = held[1] + "\n" + held[0]
			case how == "shows variables":
				unnamed := slices.DeleteFunc(os.Environ(), func(v string) bool { return !strings.HasPrefix(v, "UNNAMED") })
				out = fmt.Sprintf(`{"id":%d,"error":%q}`, q.ID, "variables "+strings.Join(unnamed, " ")) // a long text would be cut
			}
		}
		fmt.Println(out)
	}
}

// once is true in the first process that asks.
func once() bool {
	f, err := os.OpenFile(os.Getenv("ONCE"), os.O_CREATE|os.O_EXCL, 0o600)
	return err == nil && f.Close() == nil
}

// clock is a clock that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// start returns the key of a program that behaves in that way.
func start(t *testing.T, how string, patience time.Duration) (*keeper.Key, *clock) {
	t.Helper()
	t.Setenv(behaves, how)
	t.Setenv("ONCE", filepath.Join(t.TempDir(), "once"))
	t.Setenv("UNNAMED_SECRET", "a secret of the server")
	c := &clock{now: time.Unix(1, 0)}
	e, err := keeper.NewExec([]string{os.Args[0]}, []string{behaves, "ONCE"}, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	made, err := e.Create(t.Context(), "evidence", []string{keeper.Ed25519})
	if err != nil {
		t.Fatal(err)
	}
	key, err := keeper.NewKey(e, made, patience)
	if err != nil {
		t.Fatal(err)
	}
	return key, c
}

func sign(k *keeper.Key) error {
	_, err := k.Sign(nil, []byte("a message"), crypto.Hash(0))
	return err
}

// TestProgramSigns signs through a program, also where it answers in another order.
func TestProgramSigns(t *testing.T) {
	key, _ := start(t, "signs", time.Minute)
	if err := errors.Join(sign(key), key.Confirm()); err != nil {
		t.Error(err)
	}
	key, _ = start(t, "turns round", time.Minute)
	other := make(chan error)
	go func() {
		_, err := key.Sign(nil, []byte("another message"), crypto.Hash(0))
		other <- err
	}()
	if err := errors.Join(sign(key), <-other); err != nil {
		t.Error(err)
	}
}

// TestProgramThatFailsSignsNothing has every way of failing end in an error that says why.
func TestProgramThatFailsSignsNothing(t *testing.T) {
	for how, want := range map[string]string{
		"hangs":          "did not answer in time",
		"ends":           "the program ended",
		"says much":      "no line of at most",
		"says no":        `it says: "the token is locked"`,
		"answers others": "answered request 999",
	} {
		patience := time.Minute
		if how == "hangs" {
			patience = 50 * time.Millisecond
		}
		key, _ := start(t, how, patience)
		if err := sign(key); !errors.Is(err, keeper.ErrSigning) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// TestProgramIsStartedAgain has a program hang, which is ended. Calls fail at once in the
// pause after it.
func TestProgramIsStartedAgain(t *testing.T) {
	key, c := start(t, "hangs once", time.Second)
	if err := sign(key); err == nil {
		t.Error("a program that hung has signed")
	}
	if err := sign(key); err == nil || !strings.Contains(err.Error(), "started again in 100ms") {
		t.Errorf("in the pause: %v", err)
	}
	c.pass(100 * time.Millisecond)
	if err := sign(key); err != nil {
		t.Errorf("after the pause: %v", err)
	}
}

// TestProgramGetsNamedVariablesAlone keeps other secrets of the server from a program.
func TestProgramGetsNamedVariablesAlone(t *testing.T) {
	key, _ := start(t, "shows variables", time.Minute)
	if err := sign(key); err == nil || strings.Contains(err.Error(), "UNNAMED") || !strings.Contains(err.Error(), "it says") {
		t.Errorf("%v", err)
	}
}

// vault returns a key of the stand-in.
func vault(t *testing.T, algorithm string) (*keepertest.Vault, *keeper.Key) {
	t.Helper()
	v := keepertest.New(t)
	k := keeper.NewVault(keeper.VaultConfig{Address: v.URL, Mount: "transit", Prefix: "powerbox-", TokenFile: v.TokenFile, Transport: http.DefaultTransport, Random: strings.NewReader("random bytes")})
	made, err := k.Create(t.Context(), "evidence", []string{algorithm})
	if err != nil {
		t.Fatal(err)
	}
	key, err := keeper.NewKey(k, made, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return v, key
}

// TestVaultSigns signs by both algorithms. A signature that does not verify is an error,
// as are a sealed Vault, a wrong token and a key that is gone.
func TestVaultSigns(t *testing.T) {
	_, elliptic := vault(t, keeper.ES256)
	digest := make([]byte, 32)
	if _, err := elliptic.Sign(nil, digest, crypto.SHA256); err != nil {
		t.Error(err)
	}
	v, key := vault(t, keeper.Ed25519)
	if err := errors.Join(sign(key), key.Confirm()); err != nil {
		t.Error(err)
	}
	wants := func(want string) {
		t.Helper()
		if err := sign(key); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), keepertest.Token) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	v.Lies.Store(true)
	wants("does not verify")
	v.Fails.Store(true)
	wants("Vault is sealed")
	v.Fails.Store(false)
	v.Lies.Store(false)
	if err := os.WriteFile(v.TokenFile, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	wants("permission denied")
	if err := os.WriteFile(v.TokenFile, []byte(keepertest.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	v.Forget("powerbox-evidence")
	wants("signing key not found")
	if err := key.Confirm(); err == nil {
		t.Error("a key that is gone was confirmed")
	}
}
