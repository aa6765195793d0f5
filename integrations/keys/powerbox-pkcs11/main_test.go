package main

import (
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/pkcs11"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/store/keeper"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
	"github.com/powerbox-project/powerbox/token"
)

// asProgram has this test binary be the program.
const asProgram = "POWERBOX_PKCS11_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		println(err.Error())
		os.Exit(1)
	}
}

// module returns the library of SoftHSM (Debian: apt-get install softhsm2).
func module(t *testing.T) string {
	t.Helper()
	for _, path := range []string{"/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/softhsm/libsofthsm2.so", "/usr/local/lib/softhsm/libsofthsm2.so", "/opt/homebrew/lib/softhsm/libsofthsm2.so"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatal("there is no SoftHSM; Debian: apt-get install softhsm2")
	return ""
}

// softHSM makes a token, and returns the keeper of a program that has it open.
func softHSM(t *testing.T, pin string) *keeper.Exec {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"softhsm.conf": "directories.tokendir = " + dir + "\n", "pin": "5678\n", "wrong": "1111\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SOFTHSM2_CONF", filepath.Join(dir, "softhsm.conf"))
	t.Setenv(asProgram, "1")
	if out, err := exec.Command("softhsm2-util", "--init-token", "--free", "--label", "powerbox", "--so-pin", "1234", "--pin", "5678").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	k, err := keeper.NewExec([]string{os.Args[0], module(t), "powerbox", filepath.Join(dir, pin)}, []string{"SOFTHSM2_CONF", asProgram}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// TestKeysOfAServerAreInSoftHSM has the ring of a server make, use, rotate and find again
// its signing keys in a token.
func TestKeysOfAServerAreInSoftHSM(t *testing.T) {
	k := softHSM(t, "pin")
	dir := filepath.Join(t.TempDir(), "keys")
	open := func() *keyring.Ring {
		r, err := keyring.Open(dir, rand.Reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Away(k, 10*time.Second, func(string) bool { return false })
		return r
	}
	now := time.Now()
	clock := func() time.Time { return now }
	r := open()
	agent, err := r.Issuing("documents", clock)
	if err != nil {
		t.Fatal(err)
	}
	first := agent.Signer()
	if _, err := agent.Turn(now, now.Add(time.Hour), func(_, _ keyring.AgentKey) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Checkpoint("log.example"); err != nil {
		t.Fatal(err)
	}
	r = open()
	if agent, err = r.Issuing("documents", clock); err != nil {
		t.Fatal(err)
	}
	next := agent.Signer()
	if next.Public() == first.Public() || len(agent.Accepted().Parties()) != 2 {
		t.Error("the rotated key is not in use after a restart")
	}
	for _, signer := range []token.Signer{first, next} {
		signature, err := signer.Sign([]byte("input"))
		if err != nil || !signer.Public().Verify([]byte("input"), signature) {
			t.Errorf("%v", err)
		}
	}
	for _, algorithm := range []string{evidence.Ed25519, evidence.ES256} {
		signer, key, err := r.Evidence(algorithm, "server")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := signer.Sign([]byte("a hash")); err != nil || key.Algorithm != algorithm {
			t.Errorf("%s: %v", algorithm, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 5 {
		t.Fatalf("%v %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if _, _, away := keyring.Where(data); !away || err != nil || strings.Contains(string(data), `"d"`) {
			t.Errorf("%s: %s %v", file, data, err)
		}
	}
}

// TestPrivateKeyNeverLeavesTheToken asks the token for the key itself.
func TestPrivateKeyNeverLeavesTheToken(t *testing.T) {
	softHSM(t, "pin")
	own, err := open(module(t), "powerbox", "5678")
	if err != nil {
		t.Fatal(err)
	}
	id, err := own.Create(t.Context(), "evidence", "Ed25519")
	if err != nil {
		t.Fatal(err)
	}
	err = own.with(t.Context(), func(s pkcs11.SessionHandle) error {
		object, err := own.find(s, pkcs11.CKO_PRIVATE_KEY, id)
		if err != nil {
			t.Fatal(err)
		}
		_, err = own.module.GetAttributeValue(s, object, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_VALUE, nil)})
		return err
	})
	if !errors.Is(err, pkcs11.Error(pkcs11.CKR_ATTRIBUTE_SENSITIVE)) {
		t.Errorf("want CKR_ATTRIBUTE_SENSITIVE, got %v", err)
	}
}

// TestTokenThatDoesNotOpenIsAnError has a wrong PIN, and a key that is not there.
func TestTokenThatDoesNotOpenIsAnError(t *testing.T) {
	if _, err := softHSM(t, "wrong").Create(t.Context(), "evidence", []string{"Ed25519"}); err == nil || !strings.Contains(err.Error(), "the program ended") {
		t.Errorf("%v", err)
	}
	if _, err := softHSM(t, "pin").Public(t.Context(), "00"); err == nil || !strings.Contains(err.Error(), "0 keys of that id") {
		t.Errorf("%v", err)
	}
}
