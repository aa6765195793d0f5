package agentauth_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/powerbox-project/powerbox/holder/agentauth"
)

const passphrase = "correct horse battery"

// kept is a client whose store is a file with one agent.
func kept(t *testing.T) (c *agentauth.Client, file string) {
	t.Helper()
	_, c = newWorld(t)
	file = filepath.Join(t.TempDir(), "folder", "agents")
	store, err := agentauth.Open(file, passphrase, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.Store = store
	pays(t, c, "")
	return c, file
}

func TestAAPCL13_StoreIsEncrypted(t *testing.T) {
	_, file := kept(t)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(data, &members); err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(members))
	sealed, err := base64.StdEncoding.DecodeString(fmt.Sprint(members["sealed"]))
	if err != nil || !slices.Equal(names, []string{"format", "nonce", "salt", "sealed"}) {
		t.Fatalf("%v: %s", err, names)
	}
	// In base64 some word of three letters stands by chance in one file of a hundred.
	for _, word := range []string{`"agt_1"`, issuer, `"kty":"OKP"`, `"host_key":`} {
		if bytes.Contains(data, []byte(word)) || bytes.Contains(sealed, []byte(word)) {
			t.Errorf("%q can be read in it", word)
		}
	}
	store, err := agentauth.Open(file, passphrase, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	again := &agentauth.Client{Store: store}
	if all, err := again.Agents(); err != nil || len(all) != 1 || all[0].ID != "agt_1" {
		t.Errorf("%+v, %v", all, err)
	}
	if s := store.String(); s != "store "+file {
		t.Errorf("it prints as %q", s)
	}
}

func TestAAPCL13_StoresThatDoNotOpen(t *testing.T) {
	_, file := kept(t)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		passphrase string
		mode       os.FileMode
		data       []byte
	}{
		"a short passphrase":   {"short", 0o600, nil},
		"another passphrase":   {passphrase + "!", 0o600, good},
		"others can read it":   {passphrase, 0o644, good},
		"something else":       {passphrase, 0o600, []byte("{}")},
		"a nonce that is none": {passphrase, 0o600, bytes.Replace(good, []byte(`"nonce":"`), []byte(`"nonce":"AAAA`), 1)},
		"another format":       {passphrase, 0o600, bytes.Replace(good, []byte("agents 1"), []byte("agents 2"), 1)},
		"it was tampered with": {passphrase, 0o600, bytes.Replace(good, []byte(`"sealed":"`), []byte(`"sealed":"AAAA`), 1)},
	} {
		t.Run(name, func(t *testing.T) {
			other := filepath.Join(t.TempDir(), "agents")
			if test.data != nil { // nil: a new one
				if err := os.WriteFile(other, test.data, test.mode); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := agentauth.Open(other, test.passphrase, rand.Reader); err == nil {
				t.Error("it opens")
			}
		})
	}
}

// TestStoreOfTwoProcesses has one file open twice.
func TestStoreOfTwoProcesses(t *testing.T) {
	c, file := kept(t)
	store, err := agentauth.Open(file, passphrase, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other := &agentauth.Client{HTTP: c.HTTP, Now: c.Now, Random: c.Random}
	other.Store = store
	if err := other.Disconnect(t.Context(), "agt_1"); err != nil {
		t.Fatal(err)
	}
	if all, err := c.Agents(); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}
