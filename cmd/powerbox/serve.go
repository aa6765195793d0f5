package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/config"
)

// defaultConfig is the file that every verb reads unless told otherwise.
const defaultConfig = "powerbox.yaml"

func newServe(p *program) *cobra.Command {
	var file string
	var dev, newStore bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run issuer and gateway in front of the configured agents",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(file, os.ReadFile, os.Environ())
			if err != nil {
				return err
			}
			defer tune(p.env)()
			return serve(cmd.Context(), assembly{
				config: c, dev: dev, newStore: newStore, reload: func() (*config.Config, error) { return p.loadConfig(file) },
				now: p.now, log: slog.New(slog.NewJSONHandler(p.stderr, nil)), notes: p.stderr,
			})
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", defaultConfig, "configuration `file`")
	cmd.Flags().BoolVar(&dev, "dev", false, "admit the built-in users of identity.dev; NOT SAFE outside experiments")
	cmd.Flags().BoolVar(&newStore, "new-store", false, "begin a new store for keys that were used with one that is gone")
	return cmd
}

// serve runs until ctx ends, and then lets calls that are under way finish.
func serve(ctx context.Context, a assembly) error {
	c, dev, log := a.config, a.dev, a.log
	if dev {
		fmt.Fprintln(a.notes, "NOT SAFE: --dev admits built-in users with fixed tokens. Use it for experiments on this machine only.")
	}
	i, err := assemble(ctx, a)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), i.Close())
	}
	fronts, err := i.listen(ctx, listener, log)
	if err != nil {
		return errors.Join(err, i.Close())
	}
	for _, f := range fronts {
		if dev && !loopback(f.listener.Addr()) {
			return errors.Join(errors.New("--dev listens on loopback addresses only; set listen, and agents.grpc.listen, to 127.0.0.1"), closeAll(fronts), i.Close())
		}
	}
	i.warnUnreached(ctx, log)
	overridden, err := i.admin.Overridden(ctx)
	if err != nil {
		return errors.Join(err, closeAll(fronts), i.Close())
	}
	for agent, modes := range overridden {
		log.WarnContext(ctx, "an operator set another mode than the configuration has; it stays in force until 'powerbox mode AGENT configured'",
			slog.String("agent", agent), slog.String("mode", modes[0]), slog.String("configured", modes[1]))
	}
	log.InfoContext(ctx, "serving", slog.String("listen", listener.Addr().String()), slog.String("url", c.Issuer.URL), slog.Int("agents", len(c.Agents)))
	fmt.Fprint(a.notes, i.invitation)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	i.warnDegraded(ctx, log)
	asked, followed, pruned, settled := i.askOn(ctx, stop), i.followScores(ctx), i.prune(ctx, log), i.settle(ctx, log)
	err = i.serving(log).all(ctx, fronts)
	stop(nil)
	<-followed
	<-pruned
	<-settled
	i.keepUsed(a.now(), log)
	return errors.Join(err, <-asked, i.Close())
}

func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// warnUnreached tells which agents have no card that can be read. What has the Agent
// Auth Protocol as well does not need one for that: what is behind may be no agent
// of A2A at all.
func (i *instance) warnUnreached(ctx context.Context, log *slog.Logger) {
	for agent, problem := range i.gateway.Check(ctx) {
		about := []any{slog.String("agent", agent), slog.Any("error", problem)}
		if slices.ContainsFunc(i.config.Agents, func(c config.Agent) bool { return c.ID == agent && len(c.AgentAuth.Capabilities) > 0 }) {
			log.InfoContext(ctx, "an agent's card cannot be read: its capabilities of Agent Auth are served, and nothing of it is allowed over A2A", about...)
			continue
		}
		log.WarnContext(ctx, "an agent cannot be reached yet; until its card can be read nothing of it is allowed", about...)
	}
}
