package investigate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/plain"
)

// askEvery is how often --wait asks. A gateway that has the revocation tells the
// server at once.
const askEvery = 25 * time.Millisecond

// errLaggards says that the revocation is made, and that a gateway did not say
// that it has it before its lease was over.
var errLaggards = errors.New("not every gateway has said that it has the revocation; those that lag deny, since their lease is over")

// reached is where a revocation has come, as the server tells it.
type reached struct {
	Sequence int64      `json:"sequence"`
	Reads    *time.Time `json:"reads,omitempty"`
	Done     bool       `json:"done"`
	Gateways []struct {
		ID       string     `json:"id"`
		Agent    string     `json:"agent"`
		Has      bool       `json:"has"`
		Sequence int64      `json:"sequence"`
		Reported *time.Time `json:"reported,omitempty"`
		Over     time.Time  `json:"over"`
	} `json:"gateways"`
}

func (r *reached) laggards() []string {
	var out []string
	for _, g := range r.Gateways {
		if !g.Has {
			out = append(out, g.ID)
		}
	}
	return out
}

// await asks until every open gateway has a revocation or the lease of those
// without is over.
func await(ctx context.Context, op *cli.Operator, sequence int64) (*reached, error) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		var r reached
		if err := op.Get(ctx, fmt.Sprintf("/v1/revocations/%d/gateways", sequence), &r); err != nil {
			return nil, fmt.Errorf("it is revoked, and the server cannot say which gateways know it: %w", err)
		}
		if r.Done {
			return &r, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("it is revoked, and not every gateway has confirmed it yet: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

func printReached(p *cli.Program, r *reached) {
	if len(r.Gateways) == 0 {
		cli.Printf(p.Stdout, "no gateway is enrolled: the server alone enforces it, and does\n")
		return
	}
	for _, g := range r.Gateways {
		switch {
		case g.Has:
			cli.Printf(p.Stdout, "  %s in front of %s has it\n", g.ID, g.Agent)
		case g.Reported == nil:
			cli.Printf(p.Stdout, "  %s in front of %s LAGS: it has said nothing since the server started; its lease is over\n", g.ID, g.Agent)
		default:
			cli.Printf(p.Stdout, "  %s in front of %s LAGS: at revocation %d since %s; its lease is over\n", g.ID, g.Agent, g.Sequence, plain.Time(*g.Reported))
		}
	}
	if len(r.laggards()) > 0 && r.Reads != nil {
		cli.Printf(p.Stdout, "  an operator extended the lease: those that lag continue with reads until %s\n", plain.Time(*r.Reads))
	}
}

// victim is a capability on record that a revocation ends, as the server tells it.
type victim struct {
	ID        string    `json:"id"`
	Parent    string    `json:"parent,omitempty"`
	Agent     string    `json:"agent"`
	Grant     string    `json:"grant"`
	Principal string    `json:"principal"`
	Holder    string    `json:"holder"`
	Requester string    `json:"requester,omitempty"`
	Purpose   string    `json:"purpose"`
	Expires   time.Time `json:"expires"`
}

// victims is what a revocation would end.
type victims struct {
	DryRun bool     `json:"dry_run"`
	Target string   `json:"target"`
	Kind   string   `json:"kind"`
	Dies   []victim `json:"dies"`
	Count  int      `json:"count"`
	More   bool     `json:"more,omitempty"` // there are more: not all were counted
}

// victimsOf asks what a revocation would end.
func victimsOf(ctx context.Context, op *cli.Operator, body map[string]any) (victims, error) {
	only := maps.Clone(body)
	only["dry_run"] = true
	var v victims
	return v, op.Call(ctx, http.MethodPost, "/v1/revocations", only, &v)
}

func dryRun(ctx context.Context, p *cli.Program, op *cli.Operator, body map[string]any, output string) error {
	v, err := victimsOf(ctx, op, body)
	if err != nil {
		return err
	}
	if output == "json" {
		return p.PrintJSON(v)
	}
	least := ""
	if v.More {
		least = "at least "
	}
	cli.Printf(p.Stdout, "%s: %s%d on record would end", v.Target, least, v.Count)
	if v.Count > len(v.Dies) {
		cli.Printf(p.Stdout, ", of which %d are listed", len(v.Dies))
	}
	cli.Printf(p.Stdout, "; links that holders derived from them offline end with them\n")
	if len(v.Dies) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	cli.Printf(w, "CAPABILITY\tPARENT\tAGENT\tGRANT\tFOR\tHOLDER\tUNTIL\n")
	for _, c := range v.Dies {
		holder := c.Holder
		if c.Requester != "" {
			holder = c.Requester + " (" + c.Holder + ")"
		}
		cli.Printf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.ID, c.Parent, c.Agent, c.Grant, c.Principal, holder, plain.Time(c.Expires))
	}
	return w.Flush()
}
