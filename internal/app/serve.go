package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/config"
)

// Serve runs until ctx ends, and then lets calls that are under way finish.
func Serve(ctx context.Context, a Assembly) error {
	c, dev := a.Config, a.Dev
	if dev {
		fmt.Fprintln(a.Notes, "NOT SAFE: --dev admits built-in users with fixed tokens. Use it for experiments on this machine only.")
	}
	i, err := Assemble(ctx, a)
	if err != nil {
		return err
	}
	log := i.telemetry.Log(a.Log)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w; stop the program that uses the address, or correct listen in the configuration", err), i.Close())
	}
	fronts, err := i.listen(ctx, listener, log)
	if err != nil {
		return errors.Join(err, i.Close())
	}
	for _, f := range fronts {
		if dev && !serve.Loopback(f.Listener.Addr()) {
			return errors.Join(errors.New("--dev listens on loopback addresses only; set listen, and agents.grpc.listen, to 127.0.0.1"), serve.CloseAll(fronts), i.Close())
		}
	}
	names := i.agentNames()
	first := min(len(names), startCards)
	i.warnUnreached(ctx, log, names[:first])
	overridden, err := i.Admin.Overridden()
	if err != nil {
		return errors.Join(err, serve.CloseAll(fronts), i.Close())
	}
	for agent, modes := range overridden {
		log.WarnContext(ctx, "an operator set another mode than the configuration has; it stays in force until 'powerbox mode AGENT configured'",
			slog.String("agent", agent), slog.String("mode", modes[0]), slog.String("configured", modes[1]))
	}
	log.InfoContext(ctx, "serving", slog.String("listen", listener.Addr().String()), slog.String("url", c.Issuer.URL), slog.String("console", strings.TrimRight(c.Issuer.URL, "/")+"/"), slog.Int("agents", len(c.Agents)))
	fmt.Fprint(a.Notes, i.invitation)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	i.warnDegraded(ctx, log)
	asked, followed, pruned, settled := i.askOn(ctx, stop), i.followLog(ctx, log), i.prune(ctx, log), i.settle(ctx, log)
	var looked sync.WaitGroup
	looked.Go(func() { i.warnUnreached(ctx, log, names[first:]) })
	err = i.Server(log).Serve(ctx, fronts)
	stop(nil)
	<-followed
	<-pruned
	<-settled
	looked.Wait()
	i.keepUsed(a.Now(), log)
	i.scores.Keep(context.WithoutCancel(ctx))
	return errors.Join(err, <-asked, i.Close())
}

// startCards is how many agents' cards a start waits for. It fetches the others behind it.
const startCards = 16

// warnUnreached names those of some agents without a card that can be read. An agent that has the
// Agent Auth Protocol as well does not need a card for that: its backend may be no agent
// of A2A at all.
func (i *Instance) warnUnreached(ctx context.Context, log *slog.Logger, agents []string) {
	for _, agent := range agents {
		problem := i.gateway.Check(ctx, agent)
		if problem == nil || ctx.Err() != nil {
			continue
		}
		about := []any{slog.String("agent", agent), slog.Any("error", problem)}
		if slices.ContainsFunc(i.Config.Agents, func(c config.Agent) bool { return c.ID == agent && len(c.AgentAuth.Capabilities) > 0 }) {
			log.InfoContext(ctx, "an agent's card cannot be read: its capabilities of Agent Auth are served, and nothing of it is allowed over A2A", about...)
			continue
		}
		log.WarnContext(ctx, "an agent cannot be reached yet; until its card can be read nothing of it is allowed", about...)
	}
}
