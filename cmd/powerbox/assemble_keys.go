package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
)

// replacement is a key that an operator replaces because it was lost.
type replacement struct {
	file   string
	reason string
	before string // id on record, "" where it is not known
}

// remembered are the keys of the server whose ids the store keeps, beside those of
// agents and of records, which have tables of their own. The operator's token is
// not among them: it opens nothing that was made before.
var remembered = []string{"approvals.secret", "checkpoint.secret", "feed.secret", "handles.secret", "pairwise.secret"}

// adviseReplacing says how a key that was lost is replaced.
func adviseReplacing(file string) string {
	name := strings.TrimSuffix(strings.TrimSuffix(file, ".secret"), ".jwk")
	return fmt.Sprintf("if it is lost for good, replace it on record: powerbox keys replace %s --reason TEXT", name)
}

// viewer is what knows which keys are on record.
type viewer interface {
	View(ctx context.Context, read func(issuer.Reader) error) error
}

// keysOnRecord returns the keys that the store knows, by their files.
func keysOnRecord(ctx context.Context, store viewer) (map[string]string, error) {
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
func (i *instance) expectKeys(ctx context.Context, replaced *replacement) error {
	known, err := keysOnRecord(ctx, i.store)
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
		replaced.before = known[replaced.file]
		delete(known, replaced.file)
	}
	return i.ring.Expect(known)
}

// keepKeys has the store know every key of the server, and the record of one that
// was replaced.
func (i *instance) keepKeys(ctx context.Context, replaced *replacement) error {
	known, err := keysOnRecord(ctx, i.store)
	if err != nil {
		return err
	}
	used := i.ring.Used()
	for _, file := range slices.Sorted(maps.Keys(used)) {
		if slices.Contains(remembered, file) && known[file] != used[file] {
			if err := i.issuer.KeepsKey(ctx, file, used[file]); err != nil {
				return fmt.Errorf("the key %s: %w", file, err)
			}
		}
	}
	if replaced == nil {
		return nil
	}
	return i.issuer.ReplacesKey(ctx, "operator", issuer.ReplacedKey{
		File: replaced.file, Before: replaced.before, Key: used[replaced.file], Reason: replaced.reason,
	})
}

// explainKey says of a log that is not continued that its key is gone.
func (i *instance) explainKey(err error) error {
	const file = "checkpoint.secret"
	if err == nil || !i.ring.Fresh(file) {
		return err
	}
	return fmt.Errorf("%w. There is no %s in %s/keys: restore it from a backup, with mode 0600; %s", err, file, i.config.Issuer.Directory, adviseReplacing(file))
}

// replacesCheckpoint reports whether the key that the log is known by is replaced.
func (a assembly) replacesCheckpoint() bool {
	return a.replaced != nil && a.replaced.file == "checkpoint.secret"
}
