package app

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
)

// Replacement is a key that an operator replaces because it was lost.
type Replacement struct {
	File   string
	Reason string
	Before string // id on record, "" where it is not known
}

// remembered are the keys of the server whose ids the store keeps, beside those of
// agents and of records, which have their own tables. The operator's token is
// not among them: it opens nothing that was made before.
var remembered = []string{"approvals.secret", "checkpoint.secret", "credentials.secret", "feed.secret", "handles.secret", "oauth.secret", "pairwise.secret"}

// AdviseReplacing says how a key that was lost is replaced.
func AdviseReplacing(file string) string {
	name := strings.TrimSuffix(strings.TrimSuffix(file, ".secret"), ".jwk")
	return fmt.Sprintf("if it cannot be restored, replace it on record: powerbox keys replace %s --reason TEXT", name)
}

// viewer knows which keys are on record.
type viewer interface {
	View(ctx context.Context, read func(issuer.Reader) error) error
}

// KeysOnRecord returns the keys that the store knows, by their files.
func KeysOnRecord(ctx context.Context, store viewer) (map[string]string, error) {
	known := map[string]string{}
	err := store.View(ctx, func(r issuer.Reader) error {
		recorders, err := r.Recorders()
		if err != nil {
			return err
		}
		for _, k := range recorders {
			if k.Closed.IsZero() {
				known[keyring.EvidenceName(k.Key.Algorithm)+".secret"] = k.Key.ID
			}
		}
		newest, err := r.NewestKeys()
		for name, id := range newest {
			if file, own := issuer.SplitOwnKey(name); own {
				known[file] = id
			} else {
				known["agent-"+name+".jwk"] = id
			}
		}
		return err
	})
	return known, err
}

// expectKeys compares the keys with those on record, before anything is signed.
func (i *Instance) expectKeys(ctx context.Context, replaced *Replacement) error {
	known, err := KeysOnRecord(ctx, i.Store)
	if err != nil {
		return err
	}
	if !i.unused { // a store of an earlier version knows none of these by its id
		for _, file := range []string{"checkpoint.secret", "feed.secret", "handles.secret", "pairwise.secret"} {
			if _, ok := known[file]; !ok {
				known[file] = ""
			}
		}
	}
	if replaced != nil {
		replaced.Before = known[replaced.File]
		delete(known, replaced.File)
	}
	return i.Ring.Expect(known)
}

// keepKeys has the store know every key of the server, and the record of one that
// was replaced.
func (i *Instance) keepKeys(ctx context.Context, replaced *Replacement) error {
	known, err := KeysOnRecord(ctx, i.Store)
	if err != nil {
		return err
	}
	used := i.Ring.Used()
	for _, file := range slices.Sorted(maps.Keys(used)) {
		if slices.Contains(remembered, file) && known[file] != used[file] {
			if err := i.Issuer.KeepsKey(ctx, file, used[file]); err != nil {
				return fmt.Errorf("the key %s: %w", file, err)
			}
		}
	}
	if replaced == nil {
		return nil
	}
	return i.Issuer.ReplacesKey(ctx, "operator", issuer.ReplacedKey{
		File: replaced.File, Before: replaced.Before, Key: used[replaced.File], Reason: replaced.Reason,
	})
}

// explainKey says of a log that is not continued that its key is gone.
func (i *Instance) explainKey(err error) error {
	const file = "checkpoint.secret"
	if err == nil || !i.Ring.Fresh(file) {
		return err
	}
	return fmt.Errorf("%w. There is no %s in %s/keys: restore it from a backup, with mode 0600; %s", err, file, i.Config.Issuer.Directory, AdviseReplacing(file))
}

// replacesCheckpoint reports whether the key that the log is known by is replaced.
func (a Assembly) replacesCheckpoint() bool {
	return a.Replaced != nil && a.Replaced.File == "checkpoint.secret"
}

// KeysOf are the key files of a server.
func KeysOf(c *config.Config) proxy.KeyFiles {
	return proxy.KeyFiles{
		Directory: filepath.Join(string(c.Issuer.Directory), "keys"), Passphrase: string(c.Issuer.PassphraseFile), Signer: string(c.Issuer.SignerFile),
	}
}
