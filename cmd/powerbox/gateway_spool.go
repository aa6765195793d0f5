package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/store/spool"
)

const spoolLong = `The spool of a sidecar gateway holds the records that its server does not have yet. A damaged spool ends the start of the gateway.
Check shows what is whole and what is not, and changes nothing. Salvage sends every whole record to the server. It puts on record,
signed by the gateway, which records are lost. The damaged files are kept beside the spool.`

func newGatewaySpool(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "spool", Short: "Check and salvage the records that the server does not have yet", Long: spoolLong,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSpoolCheck(p), newSpoolSalvage(p))
	return cmd
}

// adviseSpool says what to do about a damaged spool.
func adviseSpool(err error, state string) error {
	if !errors.Is(err, spool.ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w. Powerbox keeps no record back in silence, so the gateway does not start. See what is whole: powerbox gateway spool check %s. "+
		"Then send what is whole, and put on record what is lost: powerbox gateway spool salvage %s", err, state, state)
}

// stateOf is the state directory of a gateway, given that or the spool in it.
func stateOf(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, "enrolment.json")); errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(filepath.Dir(filepath.Clean(dir)), "enrolment.json")); err == nil {
			return filepath.Dir(filepath.Clean(dir))
		}
	}
	return dir
}

// spoolOf is what the spool in a state directory is opened and verified by.
type spoolOf struct {
	keys     *gatewayKeys
	enrolled enrolment
	config   spool.Config
	key      evidence.Key
}

func openSpoolOf(dir, passphrase string) (*spoolOf, error) {
	s := &spoolOf{}
	state := stateOf(dir)
	if _, err := os.Stat(filepath.Join(state, "enrolment.json")); err != nil {
		return nil, fmt.Errorf("%s is no state of a gateway: %w", state, err)
	}
	var err error
	if s.keys, err = openGatewayKeys(state, passphrase); err != nil {
		return nil, err
	}
	if s.enrolled, err = s.keys.enrolled(); err != nil {
		return nil, err
	}
	signer, key, err := s.keys.ring.Evidence(s.enrolled.algorithm(), s.enrolled.Gateway)
	s.key = key
	s.config = spool.Config{Dir: filepath.Join(state, "spool"), Agent: s.enrolled.Agent, Recorder: s.enrolled.Gateway, Signer: signer, Random: rand.Reader}
	return s, err
}

func newSpoolCheck(p *program) *cobra.Command {
	var passphrase string
	cmd := &cobra.Command{
		Use: "check DIR", Short: "Say which records in the state directory of a gateway are whole; exit 4 if anything is damaged",
		Long: spoolLong, Args: cobra.ExactArgs(1),
	}
	output := outputFlag(cmd)
	cmd.Flags().StringVar(&passphrase, "passphrase-file", "", "`file` with the passphrase of its keys")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		s, err := openSpoolOf(args[0], passphrase)
		if err != nil {
			return err
		}
		found, err := spool.Check(s.config.Dir, s.key)
		if err != nil {
			return err
		}
		if *output == "json" {
			err = p.printJSON(found)
		} else {
			p.printFound(found)
		}
		if err == nil && !found.Whole() {
			err = exitWith(exitInvalid, nil)
		}
		return err
	}
	return cmd
}

func (p *program) printFound(f spool.Found) {
	fmt.Fprintf(p.stdout, "%d whole records, %d to %d", f.Records, f.First, f.Next-1)
	if f.Shipped >= 0 {
		fmt.Fprintf(p.stdout, "; the server has those before %d", f.Shipped)
	}
	fmt.Fprintln(p.stdout)
	for _, h := range f.Damage {
		fmt.Fprintf(p.stdout, "damaged: %s\n", h)
	}
}

func newSpoolSalvage(p *program) *cobra.Command {
	var passphrase string
	cmd := &cobra.Command{
		Use: "salvage DIR", Short: "Send every whole record to the server, and put on record which are lost; the gateway must be stopped",
		Long: spoolLong, Args: cobra.ExactArgs(1),
	}
	output := outputFlag(cmd)
	cmd.Flags().StringVar(&passphrase, "passphrase-file", "", "`file` with the passphrase of its keys")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := openSpoolOf(args[0], passphrase)
		if err != nil {
			return err
		}
		done, err := p.salvage(cmd.Context(), s)
		if err != nil {
			return err
		}
		if *output == "json" {
			return p.printJSON(done)
		}
		p.printSalvaged(done)
		return nil
	}
	return cmd
}

// salvage repairs a spool, and sends what is in it.
func (p *program) salvage(ctx context.Context, s *spoolOf) (spool.Salvaged, error) {
	client := &link.Client{Server: s.enrolled.Server, Key: s.keys.own, Transport: outbound.New(upstreamPolicy()).Transport(), Now: p.now}
	head, err := client.ChainEnd(ctx)
	if err != nil {
		return spool.Salvaged{}, fmt.Errorf("which records the server has cannot be told, and nothing was changed: %w", err)
	}
	done, err := spool.Salvage(spool.SalvageConfig{Spool: s.config, Key: s.key, Server: head, Now: p.now(), NewID: recordIDs(p.now)})
	if err != nil {
		return done, err
	}
	open, err := spool.Open(s.config)
	if err != nil {
		return done, err
	}
	return done, errors.Join(open.ShipRest(ctx, sends(open, client)), open.Close())
}

func (p *program) printSalvaged(done spool.Salvaged) {
	p.printFound(done.Found)
	if done.Whole() {
		fmt.Fprintln(p.stdout, "nothing is damaged; the server has every record")
		return
	}
	for _, l := range done.Lost {
		to := "on"
		if l.To > 0 {
			to = fmt.Sprintf("to %d", l.To-1)
		}
		fmt.Fprintf(p.stdout, "lost: records from %d %s, %d bytes from byte %d of %s\n", l.From, to, l.Bytes, l.At, l.File)
	}
	if len(done.Lost) == 0 {
		fmt.Fprintln(p.stdout, "no record is lost: the server had those that are damaged")
	}
	fmt.Fprintf(p.stdout, "sent: %d records as they were, %d behind a loss, sealed anew\n", done.Kept, done.Sealed)
	if done.Record != "" {
		fmt.Fprintf(p.stdout, "on record: %s\n", done.Record)
	}
	fmt.Fprintf(p.stdout, "the damaged files are in %s\n", done.Aside)
}
