package remote

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

	"github.com/powerbox-project/powerbox/internal/periodic"
	"github.com/powerbox-project/powerbox/internal/remote/link"
	"github.com/powerbox-project/powerbox/internal/store/spool"
)

// ReachedFile keeps how far the feed was followed, over restarts.
type ReachedFile string

// Read returns the number, 0 where there is no file.
func (f ReachedFile) Read() (int64, error) {
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

// Keep notes how far the feed was followed.
func (f ReachedFile) Keep(n int64, log *slog.Logger) {
	name := string(f)
	err := os.WriteFile(name+".new", []byte(strconv.FormatInt(n, 10)), 0o600)
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		log.Error("how far revocations are known is not kept over a restart", slog.Any("error", err))
	}
}

// Forget takes the note away, so that an older server is followed.
func (f ReachedFile) Forget() error {
	if err := os.Remove(string(f)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// OlderName is the file in the state of a gateway that says that its server lacks
// records which it had.
const OlderName = "older-server"

// compareEvery is how often a gateway compares the end of its chain at the server.
const compareEvery = 30 * time.Second

// wentBack notes that the server is an older copy. The gateway does not follow it until
// an operator accepts that.
func (g *remoteGateway) wentBack(had, has int64) {
	why := fmt.Sprintf("the server had %d records of this gateway and has %d: it was restored from an older copy. Restore the newest copy; "+
		"to accept the older one: powerbox gateway accept-older --state %s --reason TEXT", had, has, g.options.State)
	if g.follower.Older() == why {
		return
	}
	if err := os.WriteFile(filepath.Join(g.options.State, OlderName), []byte(why), 0o600); err != nil {
		g.log.Error("that the server is an older copy is not kept over a restart", slog.Any("error", err))
	}
	g.follower.Distrust(why)
	g.log.Error("calls are refused", slog.String("why", why))
}

// forked stops serving: the server takes no record of this state any more, so that the
// evidence would lack every call.
func (g *remoteGateway) forked(err error) {
	why := g.adviseForked(err).Error()
	if g.follower.Older() == why {
		return
	}
	g.follower.Distrust(why)
	g.log.Error("calls are refused", slog.String("why", why))
}

func (g *remoteGateway) adviseForked(err error) error {
	return fmt.Errorf("%w. %s is an older copy, is used by two gateways, or has the spool of another one. Start the gateway with its newest state, once; "+
		"or close it at the server (powerbox gateway close %s) and enroll a new --state", err, g.options.State, g.enrolled.Gateway)
}

// checkOlder compares the server with the state that the gateway saw before the start.
func (g *remoteGateway) checkOlder(ctx context.Context) error {
	why, err := os.ReadFile(filepath.Join(g.options.State, OlderName))
	if err == nil {
		g.follower.Distrust(string(why))
		g.log.ErrorContext(ctx, "calls are refused", slog.String("why", string(why)))
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := g.compareEnd(ctx); errors.Is(err, spool.ErrForked) {
		return g.adviseForked(err) // nothing was decided yet that the server would not take
	}
	return nil
}

// compareEnd asks where the chain of this gateway ends at the server. The error says that
// the records here do not continue it.
func (g *remoteGateway) compareEnd(ctx context.Context) error {
	sent := g.spool.Sent()
	head, err := g.client.ChainEnd(ctx)
	if err != nil {
		g.log.WarnContext(ctx, "whether the server is an older copy cannot be told now", slog.Any("error", err))
		return nil
	}
	if head.Sequence < sent {
		g.wentBack(sent, head.Sequence)
	}
	return g.spool.Continues(head)
}

// compare is compareEnd while calls are served.
func (g *remoteGateway) compare(ctx context.Context) {
	if err := g.compareEnd(ctx); errors.Is(err, spool.ErrForked) {
		g.forked(err)
	} else if err != nil {
		g.log.WarnContext(ctx, "whether the server is an older copy cannot be told now", slog.Any("error", err))
	}
}

// sends carries records to the server, and compares at once where it refuses them.
func (g *remoteGateway) sends() spool.Send {
	send := Sends(g.spool, g.client)
	return func(ctx context.Context, records [][]byte) (int64, error) {
		next, err := send(ctx, records)
		if errors.Is(err, link.ErrConflict) {
			g.compare(ctx)
		}
		return next, err
	}
}

// watchEnd compares until ctx ends.
func (g *remoteGateway) watchEnd(ctx context.Context) {
	periodic.Later(ctx, compareEvery, g.compare)
}
