package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/store/spool"
)

// reachedFile keeps how far the feed was followed, over restarts.
type reachedFile string

// read returns the number, 0 where there is no file.
func (f reachedFile) read() (int64, error) {
	text, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	var n int64
	if err == nil {
		n, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	}
	if err != nil {
		return 0, fmt.Errorf("%s does not say how far the feed was followed: %w", string(f), err)
	}
	return n, nil
}

func (f reachedFile) keep(n int64, log *slog.Logger) {
	name := string(f)
	err := os.WriteFile(name+".new", []byte(strconv.FormatInt(n, 10)), 0o600)
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		log.Error("how far revocations are known is not kept over a restart", slog.Any("error", err))
	}
}

func (f reachedFile) forget() error {
	if err := os.Remove(string(f)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// olderName is the file in the state of a gateway that says that its server lacks
// records which it had.
const olderName = "older-server"

// compareEvery is how often a gateway compares the end of its chain at the server.
const compareEvery = 30 * time.Second

// wentBack notes that the server is an older copy. The gateway does not follow it until
// an operator accepts that.
func (g *apartGateway) wentBack(had, has int64) {
	why := fmt.Sprintf("the server had %d records of this gateway and has %d: it was restored from an older copy. Restore the newest copy; "+
		"to accept the older one: powerbox gateway accept-older --state %s --reason TEXT", had, has, g.options.state)
	if g.follower.Older() == why {
		return
	}
	if err := os.WriteFile(filepath.Join(g.options.state, olderName), []byte(why), 0o600); err != nil {
		g.log.Error("that the server is an older copy is not kept over a restart", slog.Any("error", err))
	}
	g.follower.Distrust(why)
	g.log.Error("calls are refused", slog.String("why", why))
}

// checkOlder compares the server with what was seen before the start.
func (g *apartGateway) checkOlder(ctx context.Context) error {
	why, err := os.ReadFile(filepath.Join(g.options.state, olderName))
	if err == nil {
		g.follower.Distrust(string(why))
		g.log.ErrorContext(ctx, "calls are refused", slog.String("why", string(why)))
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	g.compareEnd(ctx)
	return nil
}

// compareEnd asks where the chain of this gateway ends at the server.
func (g *apartGateway) compareEnd(ctx context.Context) {
	sent := g.spool.Sent()
	head, err := g.client.ChainEnd(ctx)
	if err != nil {
		g.log.WarnContext(ctx, "whether the server is an older copy cannot be told now", slog.Any("error", err))
		return
	}
	if head.Sequence < sent {
		g.wentBack(sent, head.Sequence)
	}
}

// watchEnd compares until ctx ends.
func (g *apartGateway) watchEnd(ctx context.Context) {
	tick := time.NewTicker(compareEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			g.compareEnd(ctx)
		}
	}
}

func newGatewayAcceptOlder(p *program) *cobra.Command {
	var state, passphrase, reason string
	cmd := &cobra.Command{
		Use: "accept-older --reason TEXT", Args: cobra.NoArgs,
		Short: "Accept that the server was restored from an older copy, and put that on record; the gateway must be stopped",
		Long: "A gateway refuses a server that lacks records or revocations which it had. Accept-older has the gateway follow the server as it is now.\n" +
			"The gateway sends again the records that it still has. The record evidence.salvage says with the reason which are lost. What was\n" +
			"revoked since the copy is good again at the server: revoke it again first.",
	}
	cmd.Flags().StringVar(&state, "state", defaultState, "`directory` of the gateway's keys and records")
	cmd.Flags().StringVar(&passphrase, "passphrase-file", "", "`file` with the passphrase of its keys")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record; required")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if strings.TrimSpace(reason) == "" {
			return usage(errors.New("--reason is missing: the record says why an older state is accepted"))
		}
		s, err := openSpoolOf(state, passphrase)
		if err != nil {
			return err
		}
		done, err := p.acceptOlder(cmd.Context(), s, reason)
		if err != nil {
			return err
		}
		p.printSalvaged(done)
		return nil
	}
	return cmd
}

func (p *program) acceptOlder(ctx context.Context, s *spoolOf, reason string) (spool.Salvaged, error) {
	client := &link.Client{Server: s.enrolled.Server, Key: s.keys.own, Transport: outbound.New(upstreamPolicy()).Transport(), Now: p.now}
	head, err := client.ChainEnd(ctx)
	if err != nil {
		return spool.Salvaged{}, fmt.Errorf("where the server is cannot be told, and nothing was changed: %w", err)
	}
	done, err := spool.Salvage(spool.SalvageConfig{Spool: s.config, Key: s.key, Server: head, Now: p.now(), NewID: recordIDs(p.now), Older: true, Reason: reason})
	if err != nil {
		return done, err
	}
	open, err := spool.Open(s.config)
	if err != nil {
		return done, err
	}
	if err := errors.Join(open.ShipRest(ctx, sends(open, client)), open.Close()); err != nil {
		return done, err
	}
	return done, errors.Join(reachedFile(filepath.Join(s.keys.state, "feed")).forget(), reachedFile(filepath.Join(s.keys.state, olderName)).forget())
}
