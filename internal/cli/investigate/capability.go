package investigate

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/plain"
	"github.com/powerbox-project/powerbox/internal/wire/operators"
)

// capabilityPage is how many capabilities the server is asked for at once.
const capabilityPage = 1000

func newCapability(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "capability", Short: "List the capabilities in force",
		Example: "  powerbox capability list --holder agent:assistant",
	}
	cmd.AddCommand(newCapabilityList(p))
	return cmd
}

func newCapabilityList(p *cli.Program) *cobra.Command {
	var holder, user, agent string
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List the capabilities in force on record, newest first",
		Long: "List shows the capabilities that the server has on record, and that are not revoked or expired. Links that holders\n" +
			"derived offline are not on record. powerbox explain shows one of them with its chain, powerbox revoke ends it.",
		Example: "  powerbox capability list\n" +
			"  powerbox capability list --for user:alice --agent documents\n" +
			"  powerbox capability list --holder key:wWLXkq9_8h3ou7ZbhHjefsIppu2UmxmdZ4b-AuUg6bk --output json",
		Args: cobra.NoArgs,
	}
	o, output := cli.AddOperatorFlags(cmd), cli.OutputFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&holder, "holder", "", "only those of this `holder`: agent:NAME, key:THUMBPRINT, or the id of another holder")
	f.StringVar(&user, "for", "", "only those that were issued for the `user`, such as user:alice")
	f.StringVar(&agent, "agent", "", "only those for this protected `agent`")
	cli.AgentFlag(cmd, "agent")
	f.IntVar(&limit, "limit", capabilityPage, "maximum number of capabilities; 0 for all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if limit < 0 {
			return cli.Usage(fmt.Errorf("--limit is %d; want a number of capabilities, or 0 for all", limit))
		}
		op, err := p.Operator(o)
		if err != nil {
			return err
		}
		q := url.Values{}
		for name, value := range map[string]string{"holder": strings.TrimPrefix(holder, "agent:"), "principal": user, "agent": agent} {
			if value != "" {
				q.Set(name, value)
			}
		}
		raw, more, err := capabilitiesInForce(cmd.Context(), op, q, limit)
		if err != nil {
			return err
		}
		if more {
			cli.Printf(p.Stderr, "powerbox: there are more; list all with --limit 0\n")
		}
		if *output == "json" {
			return p.PrintJSON(raw)
		}
		return printCapabilities(p, raw)
	}
	return cmd
}

// capabilitiesInForce asks for page after page, up to a limit if it is not 0. It reports whether there are more.
func capabilitiesInForce(ctx context.Context, op *cli.Operator, q url.Values, limit int) (all []json.RawMessage, more bool, err error) {
	all = []json.RawMessage{}
	for before := ""; ; {
		q.Set("limit", strconv.Itoa(capabilityPage))
		if left := limit - len(all); limit > 0 && left < capabilityPage {
			q.Set("limit", strconv.Itoa(left))
		}
		if before != "" {
			q.Set("before", before)
		}
		page, next, err := capabilitiesOf(ctx, op, q)
		if err != nil {
			return nil, false, err
		}
		all = append(all, page...)
		if next == "" || limit > 0 && len(all) >= limit {
			return all, next != "", nil
		}
		before = next
	}
}

// capabilitiesOf asks for one page, and for where the next begins.
func capabilitiesOf(ctx context.Context, op *cli.Operator, q url.Values) (page []json.RawMessage, next string, err error) {
	response, err := op.Open(ctx, http.MethodGet, "/v1/capabilities?"+q.Encode(), nil)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = response.Body.Close() }() // it was read; nothing is lost
	if err := json.NewDecoder(response.Body).Decode(&page); err != nil {
		return nil, "", fmt.Errorf("the answer of %s/v1/capabilities is not understood: %w", op.Base, err)
	}
	return page, response.Header.Get(operators.NextHeader), nil
}

func printCapabilities(p *cli.Program, all []json.RawMessage) error {
	p.Empty(len(all), "no capability in force")
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	cli.Printf(w, "CAPABILITY\tAGENT\tGRANT\tFOR\tHOLDER\tUNTIL\tOPERATIONS\n")
	for _, raw := range all {
		var c audit.Capability
		if err := json.Unmarshal(raw, &c); err != nil {
			return fmt.Errorf("a capability of the server is not understood: %w", err)
		}
		holder := c.Holder
		if c.Requester != "" && c.Requester != c.Holder {
			holder = c.Requester + " (" + c.Holder + ")"
		}
		until := plain.Time(c.Expires)
		if c.Frozen {
			until += " (frozen)"
		}
		cli.Printf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.ID, c.Agent, c.Grant, c.Principal, holder, until, strings.Join(c.Operations, ", "))
	}
	return w.Flush()
}
