package capability

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/cli/auth"
	"github.com/powerbox-project/powerbox/token"
)

func newNarrow(p *cli.Program) *cobra.Command {
	var h cli.HolderFlags
	var n holder.Narrowing
	var s scopeFlags
	var file, grant, delegate, expires, out, agent string
	var agents auth.Flags
	cmd := &cobra.Command{
		Use:   "narrow --capability FILE --key FILE",
		Short: "Derive a smaller capability offline",
		Example: "  powerbox narrow --capability capability.json --key holder.jwk --operation search --out narrowed.json\n" +
			"  powerbox narrow --capability capability.json --key holder.jwk --delegate next-public.jwk --expires 5m --out next.json",
		Long: "Narrow keeps the named parts and drops the others of the same kind. Kinds that you do not name stay unchanged. The\n" +
			"result cannot be delegated unless --depth allows it. Narrow rejects every extension of authority.\n" +
			"For a scope token it creates a link to the key of --delegate or to --delegate-id, with the scopes of --scope. The issuer\n" +
			"decides how often a scope token may be delegated.",
	}
	output := cli.OutputFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&file, "capability", "", "capability `file` to narrow (required)")
	f.StringVar(&grant, "grant", "", "grant to use, if the file has several")
	f.StringSliceVar(&n.Handles, "handle", nil, "handle to keep; may be repeated")
	f.StringSliceVar(&n.Operations, "operation", nil, "operation to keep; may be repeated")
	f.StringVar(&expires, "expires", "", "lifetime, such as 5m, rounded up to whole seconds, or an end time")
	f.IntVar(&n.Depth, "depth", 0, "how often the result may be delegated")
	f.StringVar(&delegate, "delegate", "", "`file` with the public JWK of the next holder; default: the same holder")
	f.StringVar(&s.to, "delegate-id", "", "`identifier` of the next holder of a scope token, such as client:reader")
	f.StringSliceVar(&s.scopes, "scope", nil, "scope of a scope token to delegate; may be repeated; default: all")
	cmd.MarkFlagsMutuallyExclusive("delegate", "delegate-id")
	f.StringVar(&out, "out", "", "capability `file` to write, with mode 0600")
	f.StringVar(&agent, "agent", "", "`agent` of the Agent Auth Protocol that is the holder, instead of --key")
	h.Add(cmd)
	agents.Add(cmd)
	cli.Required(cmd, "capability")
	cmd.MarkFlagsMutuallyExclusive("agent", "key")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, err := holderOf(cmd.Context(), p, h, agent, &agents)
		if err != nil {
			return err
		}
		parent, err := p.ReadCapability(file, grant)
		if err != nil {
			return err
		}
		if n.Expires, err = endWithin(expires, parent, p.Now()); err != nil {
			return err
		}
		var child holder.Capability
		switch {
		case parent.ScopeToken != "":
			child, err = linked(p, client, parent, delegate, n, s)
		case s.to != "" || s.scopes != nil:
			err = cli.Usage(errors.New("--delegate-id and --scope are for scope tokens; this capability has a chain"))
		default:
			child, err = narrowed(p, client, parent, delegate, n)
		}
		if err != nil {
			return err
		}
		return p.PrintCapabilities([]holder.Capability{child}, out, *output)
	}
	return cmd
}

// endWithin reads --expires, which ends no later than the capability that is narrowed.
func endWithin(expires string, parent holder.Capability, now time.Time) (time.Time, error) {
	end, err := cli.Expiry(expires, now)
	if err == nil && end.After(parent.Expires) {
		err = cli.Exit(cli.ExitDenied, fmt.Errorf("capability_widened: --expires is %q; the capability that you narrow ends at %s, and nothing derived from it ends later", expires, parent.Expires.UTC().Format(time.RFC3339)))
	}
	return end, err
}

// holderOf is the client of a key file, or of an agent of the Agent Auth Protocol.
func holderOf(ctx context.Context, p *cli.Program, h cli.HolderFlags, agent string, f *auth.Flags) (*holder.Client, error) {
	if agent == "" {
		return p.HolderClient(h)
	}
	agents, err := auth.AgentClient(p, f)
	if err != nil {
		return nil, err
	}
	id, err := auth.AgentOf(agents, agent)
	if err != nil {
		return nil, err
	}
	key, err := agents.Key(ctx, id)
	if err != nil {
		return nil, err
	}
	return &holder.Client{Key: key, HTTP: cli.NewHTTPClient(), Now: p.Now, Random: rand.Reader}, nil
}

func narrowed(p *cli.Program, client *holder.Client, parent holder.Capability, delegate string, n holder.Narrowing) (holder.Capability, error) {
	if delegate == "" {
		return client.Narrow(parent, n)
	}
	var to token.PublicKey
	to, err := p.ReadPublicKey(delegate)
	if err != nil {
		return holder.Capability{}, err
	}
	return client.Delegate(parent, to, n)
}

// scopeFlags are what a scope token is passed on with.
type scopeFlags struct {
	to     string
	scopes []string
}

// linked passes a scope token on, offline.
func linked(p *cli.Program, client *holder.Client, parent holder.Capability, delegate string, n holder.Narrowing, s scopeFlags) (holder.Capability, error) {
	if n.Handles != nil || n.Operations != nil || n.Depth != 0 {
		return holder.Capability{}, cli.Usage(errors.New("--handle, --operation and --depth are for chains; a scope token is narrowed with --scope and --expires"))
	}
	switch {
	case delegate != "":
		data, err := p.ReadFile(delegate)
		if err != nil {
			return holder.Capability{}, err
		}
		key, err := token.ParsePartyKey(data)
		if err != nil {
			return holder.Capability{}, cli.Invalid(err)
		}
		s.to = key.DID()
	case s.to == "":
		return holder.Capability{}, cli.Usage(errors.New("a scope token is narrowed by passing it on; name the next holder with --delegate or --delegate-id"))
	}
	return client.Link(parent, holder.Link{To: s.to, Scopes: s.scopes, Expires: n.Expires})
}
