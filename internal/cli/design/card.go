package design

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/agentcard"
	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/plain"
	"github.com/powerbox-project/powerbox/internal/sorting"
)

func newCard(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "card",
		Short:   "Check, compare, sign and verify agent cards",
		Example: "  powerbox card lint agent-card.json",
		Long: "A card is a file, a URL, or - for standard input. A URL that does not end in .json is an agent's address: its card is at\n" +
			".well-known/agent-card.json below. The limits are one megabyte and ten seconds, and redirects are not followed.\n" +
			"Addresses of this machine and of private networks need --private.",
	}
	cmd.AddCommand(newCardLint(p), newCardShow(p), newCardCheck(p), newCardPath(p), newCardDiff(p), newCardSign(p), newCardVerify(p), newCardContract(p))
	return cmd
}

// CardSource says how cards are had.
type CardSource struct {
	Private bool
	cache   string
}

func (s *CardSource) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&s.Private, "private", false, "also fetch from addresses of this machine and of private networks")
	cmd.Flags().StringVar(&s.cache, "cache", "", "`folder` that caches fetched cards with their ETag")
}

// cachedCard is a fetched card as it is kept.
type cachedCard struct {
	URL  string `json:"url"`
	ETag string `json:"etag"`
	Card []byte `json:"card"`
}

// ReadCard reads a card from a file, standard input or a URL.
func ReadCard(ctx context.Context, p *cli.Program, from string, s CardSource) ([]byte, error) {
	if !strings.HasPrefix(from, "https://") && !strings.HasPrefix(from, "http://") {
		info, err := os.Stat(from)
		if err == nil && info.Size() > agentcard.MaxBytes {
			return nil, cli.Invalid(fmt.Errorf("%s has %d bytes; want a card of at most %d", from, info.Size(), agentcard.MaxBytes))
		}
		return p.ReadFile(from)
	}
	address := from
	if !strings.HasSuffix(from, ".json") {
		address = strings.TrimRight(from, "/") + "/.well-known/agent-card.json"
	}
	policy := outbound.Policy{MaxBytes: agentcard.MaxBytes}
	if s.Private {
		policy = outbound.Configured()
		policy.MaxBytes = agentcard.MaxBytes
	}
	known, file := s.known(address)
	raw, header, changed, err := outbound.New(policy).GetChanged(ctx, address, "application/json", known.ETag)
	if errors.Is(err, outbound.ErrAddress) && !s.Private {
		return nil, fmt.Errorf("%w\nto read cards from private networks, add --private", err)
	}
	if err != nil {
		return nil, err
	}
	if !changed {
		return known.Card, nil
	}
	return raw, s.keep(file, cachedCard{address, header.Get("ETag"), raw})
}

// known returns what the cache has of an address, and where that is.
func (s CardSource) known(address string) (c cachedCard, file string) {
	if s.cache == "" {
		return cachedCard{}, ""
	}
	sum := sha256.Sum256([]byte(address))
	file = filepath.Join(s.cache, hex.EncodeToString(sum[:])+".json")
	data, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(data, &c) != nil || c.URL != address || len(c.Card) == 0 {
		return cachedCard{}, file
	}
	return c, file
}

func (s CardSource) keep(file string, c cachedCard) error {
	if file == "" || c.ETag == "" {
		return nil
	}
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.cache, 0o700); err != nil {
		return err
	}
	part := file + ".part"
	if err := os.WriteFile(part, data, 0o600); err != nil {
		return err
	}
	return os.Rename(part, file)
}

// lintJSON is the stable form of what card lint finds.
type lintJSON struct {
	Card     string              `json:"card"`
	Name     string              `json:"name"`
	Digest   string              `json:"card_digest"`
	Errors   int                 `json:"errors"`
	Warnings int                 `json:"warnings"`
	Problems []agentcard.Problem `json:"problems"`
}

func newCardLint(p *cli.Program) *cobra.Command {
	var strict bool
	var from CardSource
	cmd := &cobra.Command{
		Use:   "lint CARD...",
		Short: "List the errors in agent cards",
		Long: "Lint checks cards of A2A 1.0, of 0.3 and of both in one against the protocol and the capability contract. It lists every\n" +
			"problem with its place as a JSON pointer. It exits with 4 if a card has an error.",
		Args:    cobra.MinimumNArgs(1),
		Example: "  powerbox card lint agent-card.json\n  powerbox card lint --private http://127.0.0.1:9001",
	}
	output := cli.OutputFlag(cmd)
	cmd.Flags().BoolVar(&strict, "strict", false, "treat members that A2A does not define as errors")
	from.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all := []lintJSON{}
		bad := false
		for _, name := range args {
			raw, err := ReadCard(cmd.Context(), p, name, from)
			if err != nil {
				return err
			}
			card, problems := agentcard.Lint(raw, strict)
			n := agentcard.Errors(problems)
			bad = bad || n > 0
			all = append(all, lintJSON{name, card.Name(), card.Digest(), n, len(problems) - n, append([]agentcard.Problem{}, problems...)})
		}
		if err := printLint(p, all, *output); err != nil {
			return err
		}
		if bad {
			return cli.Exit(cli.ExitInvalid, nil)
		}
		return nil
	}
	return cmd
}

func printLint(p *cli.Program, all []lintJSON, output string) error {
	if output == "json" {
		return p.PrintJSON(all)
	}
	for _, l := range all {
		for _, problem := range l.Problems {
			cli.Printf(p.Stdout, "%s: %s\n", l.Card, problem)
		}
		cli.Printf(p.Stdout, "%s: %s, %s\n", l.Card, plain.Count(l.Errors, "error"), plain.Count(l.Warnings, "warning"))
	}
	return nil
}

// cardJSON is the stable form of what a card declares.
type cardJSON struct {
	Name        string                  `json:"name"`
	Version     string                  `json:"version"`
	Digest      string                  `json:"card_digest"`
	Dialects    []string                `json:"forms"` // 0.3, 1.0
	Range       agentcard.Range         `json:"protocol_versions"`
	Explicit    bool                    `json:"explicit_range"`
	Interfaces  []agentcard.Interface   `json:"interfaces"`
	Features    []agentcard.Declaration `json:"features"`
	Skills      []agentcard.Skill       `json:"skills"`
	Required    []string                `json:"required_extensions"`
	Schemes     []string                `json:"security_schemes"`
	Signed      bool                    `json:"signed"` // the signature is not verified
	Errors      int                     `json:"errors"`
	Description string                  `json:"description"`
}

func describeCard(c agentcard.Card) cardJSON {
	r, explicit := c.Range()
	return cardJSON{
		c.Name(), c.AgentVersion(), c.Digest(), c.Dialects(), r, explicit, append([]agentcard.Interface{}, c.Interfaces()...), c.Declared(),
		append([]agentcard.Skill{}, c.Skills()...), append([]string{}, c.RequiredExtensions()...), append([]string{}, c.SecuritySchemes()...),
		c.Signed(), agentcard.Errors(c.Problems()), c.Description(),
	}
}

func newCardShow(p *cli.Program) *cobra.Command {
	var from CardSource
	cmd := &cobra.Command{
		Use:     "show CARD",
		Short:   "Show the declarations of an agent card",
		Long:    "Show prints the versions, interfaces, features by tier, skills and digest of a card.",
		Example: "  powerbox card show https://agent.example.com",
		Args:    cobra.ExactArgs(1),
	}
	output := cli.OutputFlag(cmd)
	from.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		raw, err := ReadCard(cmd.Context(), p, args[0], from)
		if err != nil {
			return err
		}
		card, err := agentcard.Parse(raw)
		if err != nil {
			return cli.Invalid(err)
		}
		if *output == "json" {
			return p.PrintJSON(describeCard(card))
		}
		return printCard(p, describeCard(card))
	}
	return cmd
}

func printCard(p *cli.Program, c cardJSON) error {
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	cli.Printf(w, "name\t%s\nversion\t%s\ndigest\t%s\n", c.Name, cmp.Or(c.Version, "-"), c.Digest)
	from := "derived from the interfaces"
	if c.Explicit {
		from = "declared"
	}
	cli.Printf(w, "protocol\t%s (%s), card in the form of %s\n", c.Range, from, strings.Join(c.Dialects, " and "))
	for _, i := range c.Interfaces {
		cli.Printf(w, "interface\t%s %s at %s\n", i.Binding, i.SpokenVersions(), strings.TrimSpace(i.URL+" "+i.Tenant))
	}
	for _, d := range c.Features {
		if says, ok := declared(d); ok {
			cli.Printf(w, "%s\t%s: %s\n", d.Tier, d.Name, says)
		}
	}
	for _, s := range c.Skills {
		cli.Printf(w, "skill\t%s: %s\n", s.ID, s.Name)
	}
	for _, uri := range c.Required {
		cli.Printf(w, "requires\t%s\n", uri)
	}
	if len(c.Schemes) > 0 {
		cli.Printf(w, "security\t%s\n", strings.Join(c.Schemes, ", "))
	}
	if c.Signed {
		cli.Printf(w, "signed\tyes; powerbox card verify says by whom\n")
	}
	if c.Errors > 0 {
		cli.Printf(w, "lint\t%s; see powerbox card lint\n", plain.Count(c.Errors, "error"))
	}
	return w.Flush()
}

// declared says in a word what a card says about a feature, where it is worth a
// line.
func declared(d agentcard.Declaration) (string, bool) {
	switch {
	case d.Tier == agentcard.Implicit:
		return "", false
	case d.Supported && d.Tier == agentcard.Deprecated:
		return "yes, but deprecated; " + d.Replacement + " takes its place", true
	case d.Supported:
		return "yes", true
	case len(d.Pointers) > 0:
		return "no", true
	}
	return "not declared, so not to be relied on", d.Tier == agentcard.Declared
}

func newCardContract(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:     "contract",
		Short:   "Print the capability contract",
		Long:    "Powerbox checks cards against this contract. Compare two versions of it with powerbox card diff.",
		Example: "  powerbox card contract > contract.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cli.Document(p.Stdout, agentcard.CurrentContract())
			return nil
		},
	}
}

// kinds are what card diff counts.
var kinds = []string{agentcard.Breach, agentcard.Widens, agentcard.Note}

func newCardDiff(p *cli.Program) *cobra.Command {
	var from CardSource
	var consent bool
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Compare two agent cards, or two versions of the contract",
		Long: "For two cards diff shows the removed and the added declarations. For two versions of the capability contract (powerbox\n" +
			"card contract) it shows every breach of stability. Nothing is removed within a major version. A removal was deprecated in\n" +
			"an earlier major version, and comes at least two major versions after the introduction. Fields are only added. Diff exits\n" +
			"with 4 on a breach.",
		Args:    cobra.ExactArgs(2),
		Example: "  powerbox card diff released/agent-card.json agent-card.json",
	}
	output := cli.OutputFlag(cmd)
	cmd.Flags().BoolVar(&consent, "consent", false, "also exit 4 if the new card is wider")
	from.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := cardDiff(cmd.Context(), p, args[0], args[1], from)
		if err != nil {
			return err
		}
		if err := printChanges(p, all, *output); err != nil {
			return err
		}
		if agentcard.Has(all, agentcard.Breach) || consent && agentcard.Has(all, agentcard.Widens) {
			return cli.Exit(cli.ExitInvalid, nil)
		}
		return nil
	}
	return cmd
}

func cardDiff(ctx context.Context, p *cli.Program, before, after string, from CardSource) ([]agentcard.Change, error) {
	a, err := ReadCard(ctx, p, before, from)
	if err != nil {
		return nil, err
	}
	b, err := ReadCard(ctx, p, after, from)
	if err != nil {
		return nil, err
	}
	if agentcard.IsContract(a) != agentcard.IsContract(b) {
		return nil, cli.Usage(errors.New("one of the two is a contract and one a card; want two of a kind"))
	}
	if agentcard.IsContract(a) {
		x, errX := agentcard.ParseContract(a)
		y, errY := agentcard.ParseContract(b)
		if err := errors.Join(naming(before, errX), naming(after, errY)); err != nil {
			return nil, cli.Invalid(err)
		}
		return agentcard.DiffContracts(x, y), nil
	}
	x, errX := agentcard.Parse(a)
	y, errY := agentcard.Parse(b)
	if err := errors.Join(naming(before, errX), naming(after, errY)); err != nil {
		return nil, cli.Invalid(err)
	}
	return agentcard.DiffCards(x, y), nil
}

func naming(file string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", file, err)
}

func printChanges(p *cli.Program, all []agentcard.Change, output string) error {
	if output == "json" {
		return p.PrintJSON(append([]agentcard.Change{}, all...))
	}
	sorting.Stable(all, func(a, b agentcard.Change) int { return slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind) })
	counts := map[string]int{}
	for _, c := range all {
		counts[c.Kind]++
		cli.Printf(p.Stdout, "%s\n", c)
	}
	breaches := "breaches"
	if counts[agentcard.Breach] == 1 {
		breaches = "breach"
	}
	cli.Printf(p.Stdout, "%d %s, %d widening, %s\n", counts[agentcard.Breach], breaches, counts[agentcard.Widens], plain.Count(counts[agentcard.Note], "note"))
	return nil
}
