package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
)

func newUsage(p *program) *cobra.Command {
	var since, until string
	var narrow bool
	cmd := &cobra.Command{
		Use:   "usage AGENT",
		Short: "Say what was granted, what of it was used and what was not, for each holder and operation",
		Long: "Usage reads what records say was possessed and what was exercised (EXT-32): of AGENT as a holder of authority\n" +
			"at other agents, and of those who hold authority at AGENT. A holder without a configured name is named as\n" +
			"records do, such as key:THUMBPRINT.\n\n" +
			"--narrow prints the smallest scopes that would have allowed everything that was used, as a file for the\n" +
			"include of powerbox.yaml, in the form of powerbox report --grants.\n\n" +
			"What is not used is a signal for policy: that less could be granted. It is no fault of the holder's, and no\n" +
			"decision and no trust score knows of it.",
		Args: cobra.ExactArgs(1),
	}
	output := outputFlag(cmd)
	o := addSourceFlags(cmd)
	cmd.Flags().StringVar(&since, "since", "720h", "from when on: how long ago, such as 24h, or a time in RFC 3339; with --from all, if it is not set")
	cmd.Flags().StringVar(&until, "until", "", "until when, as --since")
	cmd.Flags().BoolVar(&narrow, "narrow", false, "print the smallest scopes that would have allowed what was used")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if o.from != "" && !cmd.Flags().Changed("since") {
			since = ""
		}
		var q recordQuery
		if q.since, err = p.moment("since", since); err != nil {
			return err
		}
		if q.until, err = p.moment("until", until); err != nil {
			return err
		}
		from, err := p.source(o)
		if err != nil {
			return err
		}
		u, err := usageOf(cmd.Context(), from, args[0], q)
		if err != nil {
			return err
		}
		switch {
		case narrow && *output == "json":
			return p.printJSON(u.narrowed().grants())
		case narrow:
			return p.printGrants(u.narrowed(), "that allow what was used")
		case *output == "json":
			return p.printJSON(u)
		}
		return p.printUsage(u)
	}
	return cmd
}

// usageReport is what holders had and what they used, over a period.
type usageReport struct {
	Agent string    `json:"agent"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	Uses  []heldUse `json:"uses"`
	calls []use     // the calls that were let through, for --narrow
}

// heldUse is what one holder had of one operation of one agent, and did with it.
type heldUse struct {
	Holder    string `json:"holder"` // configured name or holder id
	Agent     string `json:"agent"`
	Operation string `json:"operation"` // grant/operation, or a scope
	Granted   bool   `json:"granted"`   // by a capability or a scope that records name
	Exercised int    `json:"exercised"` // how often
	Unused    bool   `json:"unused"`    // granted, and not exercised
	Last      string `json:"last,omitempty"`
}

// possession gathers what records say.
type possession map[[3]string]*heldUse

func (p possession) of(holder, agent, operation string) *heldUse {
	key := [3]string{holder, agent, operation}
	if p[key] == nil {
		p[key] = &heldUse{Holder: holder, Agent: agent, Operation: operation}
	}
	return p[key]
}

// add notes what one record says was possessed, and exercised. What A2A itself
// does with a task comes with every authority and is left out. Outcomes repeat
// their decision.
func (p possession) add(r evidence.Record) {
	d := r.Details
	if d.OutcomeOf != "" {
		return
	}
	granted := d.Granted
	if len(granted) == 0 && d.Gate != nil {
		granted = d.Gate.Allowed // a scope that stands without any capability
	}
	for _, name := range granted {
		if !reserved(name) {
			p.of(d.Requester, r.AgentID, localName(r, name)).Granted = true
		}
	}
	exercised := d.Exercised
	if isFreeText(r) && len(exercised) > 0 {
		exercised = []string{freeTextCall}
	}
	for _, name := range exercised {
		if reserved(name) {
			continue
		}
		h := p.of(d.Requester, r.AgentID, localName(r, name))
		h.Exercised++
		h.Last = max(h.Last, shortTime(r.Time))
	}
}

// reserved reports an operation of A2A itself.
func reserved(name string) bool { return strings.HasPrefix(name, "a2a.") }

// localName is an operation as scopes name it: without its agent.
func localName(r evidence.Record, name string) string { return strings.TrimPrefix(name, r.AgentID+"/") }

// covered reports whether something that a holder used falls under what it was
// granted, where that is a scope for many operations.
func (p possession) covered(by *heldUse) bool {
	pattern, ok := scopePattern(by.Operation)
	if !ok {
		return false
	}
	for _, h := range p {
		if h.Holder != by.Holder || h.Agent != by.Agent || h.Exercised == 0 {
			continue
		}
		if op, err := powerbox.ParseOperation(h.Operation); err == nil && pattern.Matches(op) {
			return true
		}
	}
	return false
}

// scopePattern reads what [powerbox.Pattern.String] writes for a scope.
func scopePattern(name string) (powerbox.Pattern, bool) {
	kind := powerbox.Subtree
	scope, ok := strings.CutSuffix(name, ".**")
	if !ok {
		kind = powerbox.Below
		scope, ok = strings.CutSuffix(name, ".*")
	}
	pattern, err := powerbox.NewPattern(kind, scope)
	return pattern, ok && err == nil
}

// usageOf reads the records of what an agent was asked for, and of what it asked
// for. It keeps counts and no records.
func usageOf(ctx context.Context, from recordSource, agent string, q recordQuery) (usageReport, error) {
	held, let := possession{}, summary{}
	q.anyOrder = true
	asked, asking := q, q
	asked.agent, asking.requester = agent, agent
	for _, q := range []recordQuery{asked, asking} {
		for r, err := range from.each(ctx, q) {
			if err != nil {
				return usageReport{}, err
			}
			if q.requester != "" && r.AgentID == agent {
				continue // it was among the others
			}
			held.add(r)
			if len(r.Details.Exercised) > 0 {
				let.add(r)
			}
		}
	}
	out := usageReport{Agent: agent, Since: q.since, Until: q.until, Uses: []heldUse{}, calls: let.list()}
	for _, h := range held {
		h.Unused = h.Granted && h.Exercised == 0 && !held.covered(h)
		out.Uses = append(out.Uses, *h)
	}
	slices.SortFunc(out.Uses, func(a, b heldUse) int {
		return cmp.Or(strings.Compare(a.Holder, b.Holder), strings.Compare(a.Agent, b.Agent), strings.Compare(a.Operation, b.Operation))
	})
	return out, nil
}

// narrowed is the report of what was used alone, from which scopes are made.
func (u usageReport) narrowed() report { return report{Since: u.Since, Uses: u.calls} }

func (p *program) printUsage(u usageReport) error {
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "HOLDER\tAGENT\tOPERATION\tGRANTED\tEXERCISED\tLAST")
	unused := 0
	for _, h := range u.Uses {
		granted := "yes"
		if !h.Granted {
			granted = "no"
		}
		exercised := fmt.Sprint(h.Exercised)
		if h.Unused {
			exercised, unused = "unused", unused+1
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", printable(h.Holder), h.Agent, printable(h.Operation), granted, exercised, h.Last)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if unused > 0 {
		fmt.Fprintf(p.stdout, "%d granted and not used in this period: powerbox usage %s --narrow prints what would have sufficed\n", unused, u.Agent)
	}
	return nil
}
