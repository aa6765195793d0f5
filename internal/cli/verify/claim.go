package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/cli"
)

// claimFlags say what a record with its proof is presented for.
type claimFlags struct {
	expect   []string
	under    string
	revoked  []string
	honoured string
}

func (f *claimFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.expect, "expect", nil, "`NAME=VALUE` that the record of --proof must contain, such as decision=ALLOW or operation=documents/documents:read/search; may be repeated. Names: "+strings.Join(evidence.ClaimMembers(), ", "))
	flags.StringVar(&f.under, "under", "", "`file` with an authority as JSON that must have allowed the record's operation with its arguments at its time")
	flags.StringArrayVar(&f.revoked, "revoked", nil, "`id` of a capability that is revoked now; may be repeated")
	flags.StringVar(&f.honoured, "honoured", "", "`file` with the ids of records that you acted on, one per line; this record is added if it verifies")
}

func (f claimFlags) given() bool {
	return len(f.expect)+len(f.revoked) > 0 || f.under != "" || f.honoured != ""
}

// claim refuses a verified record that does not say what it is presented for.
func claim(p *cli.Program, f claimFlags, r evidence.Record) error {
	c := evidence.Claim{Members: map[string]string{}, Revoked: f.revoked}
	for _, pair := range f.expect {
		name, value, ok := strings.Cut(pair, "=")
		if _, twice := c.Members[name]; !ok || twice || !slices.Contains(evidence.ClaimMembers(), name) {
			return cli.Usage(fmt.Errorf("--expect %s; want NAME=VALUE, each name once, of %s", pair, strings.Join(evidence.ClaimMembers(), ", ")))
		}
		c.Members[name] = value
	}
	var err error
	if c.Honoured, err = honouredIDs(f.honoured); err != nil {
		return err
	}
	if err := c.Check(r); errors.As(err, new(*evidence.Misuse)) {
		return cli.Invalid(err)
	} else if err != nil { // the claim itself is none
		return cli.Usage(err)
	}
	if f.under != "" {
		if err := claimUnder(p, f.under, r); err != nil {
			return err
		}
	}
	return honour(f.honoured, r.ID)
}

// claimUnder decides the record's attempt again under what the verifier knows to
// have been granted: outside its time, its operations and its arguments, a record
// shows only that a recorder wrote it.
func claimUnder(p *cli.Program, file string, r evidence.Record) error {
	data, err := p.ReadFile(file)
	if err != nil {
		return err
	}
	v, err := powerbox.ParseValue(bytes.TrimSpace(data))
	if err != nil {
		return cli.Invalid(fmt.Errorf("%s: %w", file, err))
	}
	authority, err := powerbox.ParseAuthority(v)
	if err != nil {
		return cli.Invalid(fmt.Errorf("%s: %w", file, err))
	}
	op, err := powerbox.ParseOperation(r.Intent.Operation)
	if err != nil {
		return cli.Invalid(err)
	}
	attempt := powerbox.Admission(op)
	if audit.IsFreeText(r) && r.Details.Gate != nil {
		var needed []powerbox.Operation
		for _, name := range r.Details.Gate.Required {
			if op, err = powerbox.ParseOperation(name); err != nil {
				return cli.Invalid(err)
			}
			needed = append(needed, op)
		}
		attempt = powerbox.Admission(needed...)
	} else if r.Details.Attempt != "admission" {
		arguments := powerbox.Object()
		if len(r.Details.Arguments) > 0 {
			if arguments, err = powerbox.ParseValue(r.Details.Arguments); err != nil {
				return cli.Invalid(err)
			}
		}
		if attempt, err = powerbox.Invocation(op, arguments); err != nil {
			return cli.Invalid(err)
		}
	}
	if d := powerbox.Decide(attempt, authority, r.Time); !d.Allowed {
		return cli.Invalid(fmt.Errorf("evidence: not_under: record %q is outside %s: %s", r.ID, file, d.Reasons[0]))
	}
	return nil
}

func honouredIDs(file string) ([]string, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(data)), err
}

// honour adds a record to those that were acted on. It is on the disk before the
// command says that all holds.
func honour(file, id string) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(id + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}
