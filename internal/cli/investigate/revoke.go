package investigate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/plain"
)

// revokeFlags select the revoked capabilities and the way to revoke.
type revokeFlags struct {
	capability                      string // file
	issuer, holder, delegator, user string
	dryRun, wait, unrecorded        bool
}

func newRevoke(p *cli.Program) *cobra.Command {
	var h cli.HolderFlags
	var f revokeFlags
	cmd := &cobra.Command{
		Use:   "revoke TARGET | --issued-by AGENT | --held-by HOLDER | --delegated-by HOLDER | --for USER | --capability FILE",
		Short: "Revoke capabilities and everything derived from them",
		Long: "An operator names a capability id, a revocation id, the id of a token or the hash of a derived link. A file with a\n" +
			"capability also works, if its last link was derived offline. One bulk revocation ends everything that was issued until now:\n" +
			"by an agent, to a holder, by delegation from a holder (which keeps its own capabilities), or for a user. HOLDER is\n" +
			"key:THUMBPRINT, the id of another holder, or agent:NAME.\n" +
			"Times are whole seconds: capabilities that are issued later in the same second end too.\n" +
			"\n" +
			"An id that is not on record here, and that no token or link has, is refused. After a restore from an older copy such ids\n" +
			"can be in use: --unrecorded revokes them too.\n" +
			"\n" +
			"A holder uses its key to return a capability, or to end a link that it delegated.\n" +
			"\n" +
			"--dry-run lists the recorded capabilities that would end. --wait exits with 0 when every remote gateway has the\n" +
			"revocation. It exits with 5 and names the late gateways when their leases end, because they then deny.",
		Example: "  powerbox revoke cap_01j8 --dry-run\n  powerbox revoke --delegated-by agent:planner --wait\n  powerbox revoke --issued-by documents",
		Args:    cobra.MaximumNArgs(1),
	}
	output := cli.OutputFlag(cmd)
	o := cli.AddOperatorFlags(cmd)
	cmd.Flags().StringVar(&f.capability, "capability", "", "capability `file`; with --key as a holder of it, otherwise as an operator")
	cmd.Flags().StringVar(&f.issuer, "issued-by", "", "everything that the protected `agent` has issued until now")
	cli.AgentFlag(cmd, "issued-by")
	cmd.Flags().StringVar(&f.holder, "held-by", "", "everything that the `holder` holds or has delegated")
	cmd.Flags().StringVar(&f.delegator, "delegated-by", "", "everything that the `holder` has delegated")
	cmd.Flags().StringVar(&f.user, "for", "", "everything that was issued for the `user`, such as user:alice")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "list what would be revoked, and revoke nothing")
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait until every gateway has the revocation, or denies")
	cmd.Flags().BoolVar(&f.unrecorded, "unrecorded", false, "revoke an id that is not on record here, such as after a restore")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "wait")
	h.Add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if h.Key != "" {
			if f != (revokeFlags{capability: f.capability}) || f.capability == "" || len(args) > 0 {
				return cli.Usage(errors.New("a holder, with --key, names --capability FILE and nothing else"))
			}
			return revokeAsHolder(cmd.Context(), p, h, f.capability, *output)
		}
		bodies, err := revokeBodies(p, f, args)
		if err != nil {
			return err
		}
		return revokeAsOperator(cmd.Context(), p, o, f, bodies, *output)
	}
	return cmd
}

// revokeBodies is what the server is asked, one request for each capability of a
// file and one otherwise.
func revokeBodies(p *cli.Program, f revokeFlags, args []string) ([]map[string]any, error) {
	body := map[string]any{}
	for name, value := range map[string]string{"issuer": f.issuer, "holder": f.holder, "delegator": f.delegator, "principal": f.user} {
		if value != "" {
			body[name] = value
		}
	}
	if len(args) == 1 {
		body["target"] = args[0]
	}
	if (f.capability != "") == (len(body) > 0) || len(body) > 1 {
		return nil, cli.Usage(errors.New("want one of TARGET, --issued-by, --held-by, --delegated-by, --for and --capability"))
	}
	if f.capability == "" {
		return []map[string]any{body}, nil
	}
	held, err := p.ReadCapabilities(f.capability)
	if err != nil {
		return nil, err
	}
	var out []map[string]any
	for _, c := range held {
		one := map[string]any{"target": c.ID}
		if len(c.Chain) > 0 {
			one = map[string]any{"chain": c.Chain}
		}
		out = append(out, one)
	}
	return out, nil
}

// revocation is the server's answer.
type revocation struct {
	Target   string    `json:"target"`
	Kind     string    `json:"kind"`
	Sequence int64     `json:"sequence"`
	At       time.Time `json:"at"`
	Ended    *int      `json:"ended,omitempty"`   // capabilities on record; absent if the server could not say
	More     bool      `json:"more,omitempty"`    // more ended than were counted
	Reached  *reached  `json:"reached,omitempty"` // with --wait
}

func revokeAsOperator(ctx context.Context, p *cli.Program, o *cli.OperatorFlags, f revokeFlags, bodies []map[string]any, output string) error {
	op, err := p.Operator(o)
	if err != nil {
		return err
	}
	var lag error
	for _, body := range bodies {
		if f.dryRun {
			err = dryRun(ctx, p, op, body, output)
		} else {
			err = revokeOne(ctx, p, op, f, body, output)
		}
		if errors.Is(err, errLaggards) {
			lag, err = err, nil
		}
		if err != nil {
			return fmt.Errorf("revoke: %w", err)
		}
	}
	return lag
}

func revokeOne(ctx context.Context, p *cli.Program, op *cli.Operator, f revokeFlags, body map[string]any, output string) error {
	if target, single := body["target"].(string); single && !f.unrecorded {
		if err := mayBeInUse(ctx, op, target); err != nil {
			return err
		}
	}
	var r revocation
	before, counted := victimsOf(ctx, op, body)
	err := op.Call(ctx, http.MethodPost, "/v1/revocations", body, &r)
	if err != nil {
		return err
	}
	if counted == nil {
		r.Ended, r.More = &before.Count, before.More
	}
	if output != "json" {
		cli.Printf(p.Stdout, "revoked %s (revocation %d)%s\n", r.Target, r.Sequence, r.ended())
	}
	if r.Ended != nil && *r.Ended == 0 {
		cli.Printf(p.Stderr, "powerbox: no capability on record ended by this: if the name is mistyped, nothing was stopped\n")
	}
	if f.wait {
		if r.Reached, err = await(ctx, op, r.Sequence); err != nil {
			return err
		}
	}
	switch {
	case output == "json":
		err = p.PrintJSON(r)
	case f.wait:
		printReached(p, r.Reached)
	}
	if err == nil && r.Reached != nil && len(r.Reached.laggards()) > 0 {
		return cli.Exit(cli.ExitLags, errLaggards)
	}
	return err
}

// knownForm matches the ids of revocations and of tokens, and hashes of links. Tokens of other issuers may
// have ids of any form.
var knownForm = regexp.MustCompile(`^rv_|^link_[A-Za-z0-9_-]{43}$|^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$|^[A-Za-z0-9_-]{43}$|^[0-9a-f]{64}$`)

// mayBeInUse refuses an id that no capability on record has, and that no token or link can
// have: a revocation of a mistyped id would look as if something was stopped. Where the server
// cannot say, the revocation itself tells.
func mayBeInUse(ctx context.Context, op *cli.Operator, target string) error {
	if !strings.HasPrefix(target, "cap_") {
		if !knownForm.MatchString(target) {
			return fmt.Errorf("%q is the id of nothing that Powerbox issues (cap_..., rv_..., link_..., a UUID, the hash of a link), so nothing was revoked. "+
				"Correct it, or add --unrecorded for a token of another issuer", target)
		}
		return nil
	}
	var c struct{}
	if err := op.Get(ctx, "/v1/capabilities/"+url.PathEscape(target), &c); errors.Is(err, audit.ErrNotThere) {
		return fmt.Errorf("no capability %s is on record here, so nothing was revoked. Correct the id; powerbox capability list shows those in force. "+
			"If this server was restored from an older copy, add --unrecorded", target)
	}
	return nil
}

// ended says how many capabilities on record a revocation ended.
func (r revocation) ended() string {
	switch {
	case r.Ended == nil:
		return ""
	case r.More:
		return fmt.Sprintf(": at least %s on record ended", plain.Count(*r.Ended, "capability"))
	}
	return fmt.Sprintf(": %s on record ended", plain.Count(*r.Ended, "capability"))
}

func revokeAsHolder(ctx context.Context, p *cli.Program, h cli.HolderFlags, file, output string) error {
	client, err := p.HolderClient(h)
	if err != nil {
		return err
	}
	held, err := p.ReadCapabilities(file)
	if err != nil {
		return err
	}
	for _, c := range held {
		agent, err := client.Discover(ctx, c.Agent)
		if err != nil {
			return err
		}
		if err := client.Revoke(ctx, agent, c); err != nil {
			return p.Denied(err, output)
		}
		if output == "json" {
			err = p.PrintJSON(map[string]string{"target": c.ID})
		} else {
			cli.Printf(p.Stdout, "revoked %s\n", c.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
