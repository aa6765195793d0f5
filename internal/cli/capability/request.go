package capability

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/holder/agentauth"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/cli/auth"
	"github.com/powerbox-project/powerbox/token"
)

// requestFlags are what a request asks for.
type requestFlags struct {
	holder     cli.HolderFlags
	params     holder.RequestParams
	collection string
	filters    []string
	limit      int
	after      string
	expires    string
	out        string
	via        string
	wait       cli.WaitFlags
	agent      auth.Flags
	asking     auth.AskingFlags
}

func newRequest(p *cli.Program) *cobra.Command {
	var r requestFlags
	cmd := &cobra.Command{
		Use:   "request AGENT_URL --grant GRANT --purpose TEXT --key FILE",
		Short: "Request a capability from an agent for one task",
		Example: "  powerbox request http://127.0.0.1:8700/agents/documents --grant documents:read --purpose 'Summarize the quarter' \\\n" +
			"    --collection reports --filter quarter=2025-Q1 --key holder.jwk --session-file alice.session --out capability.json",
		Long: "Request exits with 3 if the agent refuses, and with 6 if a person must approve and --wait is not set. Send the same\n" +
			"request again after the approval.\n" +
			"\n" +
			"With --via agent-auth an existing agent asks its Agent Auth provider for more, and waits for approval. Create the agent\n" +
			"with powerbox agent connect. AGENT_URL is then the id of the agent, or a provider with one agent, and a grant is a\n" +
			"capability. With --out the provider also issues tokens for these grants, if it supports them. powerbox narrow --agent\n" +
			"delegates them.\n" +
			"\n" +
			"A caller without a key uses --by-reference. The agent then identifies it by the OAuth client of its session, or by its\n" +
			"certificate. The command prints the headers to send with its calls.",
		Args: cobra.ExactArgs(1),
	}
	output := cli.OutputFlag(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&r.params.Grants, "grant", nil, "`grant` to ask for; may be repeated (required)")
	f.StringVar(&r.params.Purpose, "purpose", "", "description of the task, in your own `words` (required)")
	f.StringSliceVar(&r.params.Operations, "operation", nil, "operation of the grants; default: all of them")
	f.StringVar(&r.collection, "collection", "", "collection of resources to ask for")
	f.StringArrayVar(&r.filters, "filter", nil, "attribute=text, or attribute:=JSON, that the resources must have")
	f.IntVar(&r.limit, "limit", 0, "most resources to ask for at once, of a live collection; the server may give fewer")
	f.StringVar(&r.after, "after", "", "cursor of further resources, which the request before printed as more")
	f.StringVar(&r.expires, "expires", "", "lifetime, such as 30m, rounded up to whole seconds, or an end time; the agent may allow less, and a warning says so")
	f.StringVar(&r.params.Task, "task", "", "A2A task or context that it is for")
	f.StringVar(&r.params.Tenant, "tenant", "", "tenant of the agent, in which that task is")
	f.BoolVar(&r.params.Push, "push", false, "ask for push notifications as well")
	f.BoolVar(&r.params.Card, "card", false, "ask for the agent's extended card as well")
	f.BoolVar(&r.params.ScopeToken, "scope-token", false, "ask for a scope token of the authorization extension")
	r.wait.Add(cmd)
	f.StringVar(&r.out, "out", "", "capability `file` to write, with mode 0600")
	f.StringVar(&r.via, "via", "a2a", "protocol: a2a, or agent-auth")
	cli.Values(cmd, "via", "a2a", "agent-auth")
	r.holder.AddEither(cmd)
	r.agent.Add(cmd)
	r.asking.Add(cmd)
	cli.Required(cmd, "grant", "purpose")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkVia(r.via); err != nil {
			return err
		}
		if err := cli.CanWrite(r.out); err != nil {
			return err
		}
		if r.via == viaAgentAuth {
			return requestCapability(p, cmd, &r, args[0], *output)
		}
		return requestOfAgent(cmd.Context(), p, &r, args[0], *output)
	}
	return cmd
}

// requestOfAgent asks an agent for capabilities.
func requestOfAgent(ctx context.Context, p *cli.Program, r *requestFlags, url, output string) error {
	client, err := p.HolderClient(r.holder)
	if err != nil {
		return err
	}
	if client.Session == nil {
		return cli.Usage(fmt.Errorf("a request is made for a user; give the access token by --session-file or %s", cli.SessionEnv))
	}
	if r.params.Query, err = r.query(); err != nil {
		return err
	}
	if r.params.Expires, err = cli.Expiry(r.expires, p.Now()); err != nil {
		return err
	}
	if longest := p.Now().Add(token.MaxLifetime + time.Second); r.params.Expires.After(longest) {
		return cli.Usage(fmt.Errorf("--expires is %q; no capability lives longer than %d days", r.expires, token.MaxLifetime/(24*time.Hour)))
	}
	agent, err := client.Discover(ctx, url)
	if err != nil {
		return err
	}
	var held []holder.Capability
	asked, ctx, stop, err := p.Waiting(ctx, r.wait)
	defer stop()
	switch {
	case err != nil:
		return err
	case asked == nil:
		held, err = client.Request(ctx, agent, r.params)
	default:
		held, err = client.RequestAndWait(ctx, agent, r.params, asked)
	}
	if err != nil {
		return p.Denied(err, output)
	}
	for _, c := range held {
		if c.Expires.Before(r.params.Expires) {
			cli.Printf(p.Stderr, "powerbox: warning: you asked for %s until %s, and the agent allows it until %s; request it again before that\n",
				c.Grant, r.params.Expires.UTC().Format(time.RFC3339), c.Expires.UTC().Format(time.RFC3339))
		}
		if len(c.OutsideScope) > 0 {
			cli.Printf(p.Stderr, "powerbox: warning: the caller's scope refuses %s of %s, whatever the capability says; an operator adds it (scopes in powerbox.yaml)\n",
				strings.Join(c.OutsideScope, ", "), c.Grant)
		}
	}
	return p.PrintCapabilities(held, r.out, output)
}

// requestCapability asks a provider for more, for one of its agents.
func requestCapability(p *cli.Program, cmd *cobra.Command, r *requestFlags, of, output string) error {
	err := foreign(cmd, "operation", "collection", "filter", "expires", "task", "tenant", "push", "card", "scope-token", "wait", "timeout", "key", "session", "session-file", "by-reference", "certificate", "certificate-key", "ca")
	if err != nil {
		return err
	}
	asks, err := r.asking.Asks(r.params.Grants)
	if err != nil {
		return err
	}
	client, err := auth.AgentClient(p, &r.agent)
	if err != nil {
		return err
	}
	agent, err := auth.AgentOf(client, of)
	if err != nil {
		return err
	}
	r.asking.With.Reason = r.params.Purpose
	a, err := client.RequestCapability(cmd.Context(), agent, asks, r.asking.With)
	if r.out == "" {
		return auth.Connected(p, a, err, r.asking.With.NoWait, output)
	}
	if refused := (*agentauth.Error)(nil); err != nil && (!errors.As(err, &refused) || refused.Code != alreadyGranted) {
		return auth.Refused(p, err, output)
	}
	return tokensOfGrants(cmd.Context(), p, client, agent, r, output)
}

// alreadyGranted is what a provider says of a grant that an agent has.
const alreadyGranted = "already_granted"

// tokensOfGrants has a provider issue tokens for grants of an agent, and writes them
// as capabilities.
func tokensOfGrants(ctx context.Context, p *cli.Program, client *agentauth.Client, agent string, r *requestFlags, output string) error {
	tokens, err := client.Tokens(ctx, agent, agentauth.TokenAsk{Capabilities: r.params.Grants})
	if err != nil {
		return auth.Refused(p, err, output)
	}
	held := make([]holder.Capability, len(tokens))
	for i, t := range tokens {
		held[i] = holder.Capability{
			ID: t.ID, Agent: t.Issuer, Grant: t.Grant, Operations: t.Operations, Expires: t.Expires, RevocationID: t.RevocationID, Principal: t.Principal, Chain: t.Chain,
		}
	}
	return p.PrintCapabilities(held, r.out, output)
}

// query is the resource query of the flags; null where they ask for none.
func (r *requestFlags) query() (powerbox.Value, error) {
	all, err := query(r.collection, r.filters)
	if err != nil {
		return powerbox.Value{}, err
	}
	switch {
	case len(all) == 0 && (r.limit != 0 || r.after != ""):
		return powerbox.Value{}, cli.Usage(errors.New("--limit and --after are for a collection; add --collection"))
	case len(all) == 0:
		return powerbox.Value{}, nil
	}
	if r.limit != 0 {
		all = append(all, powerbox.Member{Name: "limit", Value: powerbox.Number(powerbox.Int(int64(r.limit)))})
	}
	if r.after != "" {
		all = append(all, powerbox.Member{Name: "after", Value: powerbox.String(r.after)})
	}
	return powerbox.Object(all...), nil
}

// query is the collection and filter of a resource query; nil without a collection.
func query(collection string, filters []string) ([]powerbox.Member, error) {
	if collection == "" {
		if len(filters) > 0 {
			return nil, cli.Usage(fmt.Errorf("--filter %q selects in a collection; add --collection", filters[0]))
		}
		return nil, nil
	}
	var members []powerbox.Member
	for _, f := range filters {
		name, text, ok := strings.Cut(f, "=")
		if !ok || name == "" || name == ":" {
			return nil, cli.Usage(fmt.Errorf("--filter is %q; want attribute=text or attribute:=JSON", f))
		}
		value := powerbox.String(text)
		if plain, isJSON := strings.CutSuffix(name, ":"); isJSON {
			var err error
			if value, err = powerbox.ParseValue([]byte(text)); err != nil {
				return nil, cli.Usage(fmt.Errorf("--filter %s: %w", plain, err))
			}
			name = plain
		}
		members = append(members, powerbox.Member{Name: name, Value: value})
	}
	all := []powerbox.Member{{Name: "collection", Value: powerbox.String(collection)}}
	if len(members) > 0 {
		all = append(all, powerbox.Member{Name: "filter", Value: powerbox.Object(members...)})
	}
	return all, nil
}
