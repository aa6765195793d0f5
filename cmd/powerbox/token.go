package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/token"
)

func newToken(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Verify, inspect, derive and issue capability tokens, offline",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenVerify(p), newTokenVerifyScopes(p), newTokenInspect(p), newTokenDerive(p), newTokenIssue(p))
	return cmd
}

// outputFlag adds --output, which is text or json.
func outputFlag(cmd *cobra.Command) *string {
	output := cmd.Flags().StringP("output", "o", "text", "text or json")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *output != "text" && *output != "json" {
			return usage(fmt.Errorf("--output is %q; want text or json", *output))
		}
		return nil
	}
	return output
}

func required(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic("a flag that is not there is required: " + name)
		}
	}
}

func newTokenVerify(p *program) *cobra.Command {
	var anchors, chain, proof, operation, arguments, audience string
	var at int64
	var revoked []string
	cmd := &cobra.Command{
		Use:   "verify --anchors JWKS --chain FILE --proof FILE --operation NAME --arguments JSON --at UNIX",
		Short: "Decide one call from files alone: exit 0 allowed, 3 denied",
		Long: "Verify checks a chain of tokens and the proof of one call against trusted keys, as an enforcement point\n" +
			"does, without any server. The chain is a JSON array of compact tokens, root first. What is malformed or\n" +
			"missing is denied with a reason; a file that cannot be read is an error.",
	}
	output := outputFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&anchors, "anchors", "", "file with the JWK Set of the trusted issuers (required)")
	f.StringVar(&chain, "chain", "", "file with the chain (required)")
	f.StringVar(&proof, "proof", "", "file with the proof of the call")
	f.StringVar(&operation, "operation", "", "exact name of the operation")
	f.StringVar(&arguments, "arguments", "", "arguments of the call, a JSON object")
	f.Int64Var(&at, "at", 0, "the time that decides, in seconds since 1970 (required)")
	f.StringVar(&audience, "audience", "", "audience that the proof must name; not looked at where absent")
	f.StringSliceVar(&revoked, "revoked", nil, "revoked ids: jti of a token or hash of its signing input")
	required(cmd, "anchors", "chain", "at")
	cmd.RunE = func(*cobra.Command, []string) error {
		r := token.CheckRequest{Operation: operation, Arguments: []byte(arguments), At: time.Unix(at, 0), Audience: audience, Revoked: revoked}
		var err error
		if r.Anchors, err = p.readFile(anchors); err != nil {
			return err
		}
		if r.Chain, err = p.readFile(chain); err != nil {
			return err
		}
		if proof != "" {
			if r.Proof, err = p.readFile(proof); err != nil {
				return err
			}
		}
		return p.answer(token.Check(r), *output)
	}
	return cmd
}

// answer prints a decision. A denial is an answer, not an error.
func (p *program) answer(result token.CheckResult, output string) error {
	if output == "json" {
		if err := json.NewEncoder(p.stdout).Encode(result); err != nil {
			return err
		}
	} else if result.Allowed {
		fmt.Fprintln(p.stdout, "allow")
	} else {
		fmt.Fprintln(p.stdout, "deny")
		for _, e := range result.Reasons {
			fmt.Fprintln(p.stdout, " ", e.Error())
		}
	}
	if !result.Allowed {
		return exitWith(exitDenied, nil)
	}
	return nil
}

func newTokenInspect(p *program) *cobra.Command {
	var chain string
	cmd := &cobra.Command{
		Use:   "inspect --chain FILE",
		Short: "Show what each token of a chain says and what it narrowed; verifies no signature",
	}
	output := outputFlag(cmd)
	cmd.Flags().StringVar(&chain, "chain", "", "file with the chain (required)")
	required(cmd, "chain")
	cmd.RunE = func(*cobra.Command, []string) error {
		u, err := p.readChain(chain)
		if err != nil {
			return err
		}
		if *output == "json" {
			return json.NewEncoder(p.stdout).Encode(linksJSON(u.Describe()))
		}
		for i, l := range u.Describe() {
			p.printLink(i, l)
		}
		fmt.Fprintln(p.stderr, "powerbox: no signature was verified")
		return nil
	}
	return cmd
}

func (p *program) printLink(i int, l token.Link) {
	fmt.Fprintf(p.stdout, "token %d  %s\n", i, l.ID)
	fmt.Fprintf(p.stdout, "  issuer   %s\n  holder   %s\n", l.Issuer, l.Holder)
	fmt.Fprintf(p.stdout, "  good     %s to %s\n", l.IssuedAt.Format(time.RFC3339), l.Expires.Format(time.RFC3339))
	fmt.Fprintf(p.stdout, "  depth    %d of %d\n  hash     %s\n", l.Depth, l.MaxDepth, l.Hash)
	for _, c := range l.Tools {
		fmt.Fprintf(p.stdout, "  may      %s%s\n", c.Pattern, argumentsText(c.Shape))
	}
	for _, n := range l.Narrowed {
		fmt.Fprintf(p.stdout, "  narrowed %s\n", n)
	}
}

func argumentsText(s powerbox.Shape) string {
	if len(s.Fields()) == 0 {
		return " with any arguments"
	}
	texts := make([]string, len(s.Fields()))
	for i, f := range s.Fields() {
		texts[i] = fmt.Sprintf("%s %s", f.Name, f.Constraint.JSON())
	}
	return " where " + strings.Join(texts, ", ")
}

// linkJSON is the stable form of one token.
type linkJSON struct {
	ID       string          `json:"id"`
	Hash     string          `json:"hash"`
	Issuer   string          `json:"issuer"`
	Holder   string          `json:"holder"`
	IssuedAt time.Time       `json:"issued_at"`
	Expires  time.Time       `json:"expires"`
	Depth    int             `json:"depth"`
	MaxDepth int             `json:"max_depth"`
	Tools    json.RawMessage `json:"tools"`
	Narrowed []string        `json:"narrowed"`
}

func linksJSON(links []token.Link) []linkJSON {
	out := make([]linkJSON, len(links))
	for i, l := range links {
		out[i] = linkJSON{
			l.ID, l.Hash, l.Issuer, l.Holder, l.IssuedAt, l.Expires, l.Depth, l.MaxDepth,
			token.ToolsJSON(l.Tools).AppendJSON(nil), append([]string{}, l.Narrowed...),
		}
	}
	return out
}

// readChain reads a chain file. What it holds is not verified.
func (p *program) readChain(name string) (token.Unverified, error) {
	data, err := p.readFile(name)
	if err != nil {
		return token.Unverified{}, err
	}
	tokens, err := token.ParseChainFile(data)
	if err != nil {
		return token.Unverified{}, invalid(err)
	}
	u, err := token.ParseChain(tokens)
	return u, invalid(err)
}

// invalid makes err one of something that is not what it should be.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return exitWith(exitInvalid, err)
}

func (p *program) readPrivateKey(name string) (*token.PrivateKey, error) {
	data, err := p.readFile(name)
	if err != nil {
		return nil, err
	}
	k, err := token.ParsePrivateKey(data)
	return k, invalid(err)
}

func (p *program) readPublicKey(name string) (token.PublicKey, error) {
	data, err := p.readFile(name)
	if err != nil {
		return token.PublicKey{}, err
	}
	k, err := token.ParsePublicKey(data)
	return k, invalid(err)
}

// newID returns a UUIDv7, as the draft's section 3.2 recommends.
func newID() (string, error) {
	id, err := uuid.NewV7FromReader(rand.Reader)
	return id.String(), err
}

// at returns the time that a flag gives, or the clock's.
func (p *program) at(unix int64) time.Time {
	if unix == 0 {
		return p.now()
	}
	return time.Unix(unix, 0)
}

func newTokenDerive(p *program) *cobra.Command {
	var d derivation
	cmd := &cobra.Command{
		Use:   "derive --chain FILE --key FILE --holder FILE (--anchors JWKS | --unsafe-trust-root)",
		Short: "Derive a narrower token as the holder of a chain; prints the longer chain",
		Long: "Derive works offline. It refuses, with the whole list, what would be wider than the chain's last token.\n" +
			"Without --tools all operations are kept; without --expires the expiry is.",
	}
	f := cmd.Flags()
	f.StringVar(&d.chain, "chain", "", "file with the chain (required)")
	f.StringVar(&d.key, "key", "", "file with the private JWK of the chain's holder (required)")
	f.StringVar(&d.holder, "holder", "", "file with the public JWK of the next holder (required)")
	f.StringVar(&d.anchors, "anchors", "", "file with the JWK Set of the trusted issuers")
	f.BoolVar(&d.trustRoot, "unsafe-trust-root", false, "derive without knowing the issuer's key")
	f.StringVar(&d.tools, "tools", "", "operations to keep, a tools map as in the token")
	f.Int64Var(&d.expires, "expires", 0, "when the new token expires, in seconds since 1970")
	f.IntVar(&d.depth, "depth", 0, "how often the new token may be passed on")
	f.Int64Var(&d.at, "at", 0, "the time of derivation in seconds since 1970; the clock's where absent")
	required(cmd, "chain", "key", "holder")
	cmd.MarkFlagsMutuallyExclusive("anchors", "unsafe-trust-root")
	cmd.MarkFlagsOneRequired("anchors", "unsafe-trust-root")
	cmd.RunE = func(*cobra.Command, []string) error { return p.derive(d) }
	return cmd
}

type derivation struct {
	chain, key, holder, anchors, tools string
	trustRoot                          bool
	expires, at                        int64
	depth                              int
}

func (p *program) derive(d derivation) error {
	parent, err := p.readParent(d)
	if err != nil {
		return err
	}
	key, err := p.readPrivateKey(d.key)
	if err != nil {
		return err
	}
	n := token.Narrowing{Now: p.at(d.at), Tools: parent.Tools(), MaxDepth: d.depth}
	if n.Holder, err = p.readPublicKey(d.holder); err != nil {
		return err
	}
	if n.ID, err = newID(); err != nil {
		return err
	}
	if d.tools != "" {
		if n.Tools, err = token.ParseTools([]byte(d.tools)); err != nil {
			return usage(fmt.Errorf("--tools: %w", err))
		}
	}
	if d.expires != 0 {
		n.Expires = time.Unix(d.expires, 0)
	}
	child, err := token.Derive(parent, key, n)
	if err != nil {
		return err
	}
	return json.NewEncoder(p.stdout).Encode(append(parent.Tokens(), child))
}

// readParent reads and verifies the chain to derive from. A holder has no list
// of what is revoked; whoever enforces the new chain does.
func (p *program) readParent(d derivation) (token.Verified, error) {
	u, err := p.readChain(d.chain)
	if err != nil {
		return token.Verified{}, err
	}
	o := token.Options{Now: p.at(d.at), Revoked: token.UnsafeNothingRevoked}
	if d.trustRoot {
		return u.UnsafeTrustRoot(o)
	}
	data, err := p.readFile(d.anchors)
	if err != nil {
		return token.Verified{}, err
	}
	anchors, err := token.ParseKeySet(data)
	if err != nil {
		return token.Verified{}, invalid(err)
	}
	return u.Verify(anchors, o)
}

func newTokenIssue(p *program) *cobra.Command {
	var key, issuer, holder, tools string
	var lifetime time.Duration
	var depth int
	var at int64
	cmd := &cobra.Command{
		Use:   "issue --key FILE --issuer URI --holder FILE --tools JSON",
		Short: "Issue a root token with a key of your own; prints a chain of one token",
	}
	f := cmd.Flags()
	f.StringVar(&key, "key", "", "file with the issuer's private JWK (required)")
	f.StringVar(&issuer, "issuer", "", "the issuer's URI (required)")
	f.StringVar(&holder, "holder", "", "file with the holder's public JWK (required)")
	f.StringVar(&tools, "tools", "", "what the holder may do, a tools map as in the token (required)")
	f.DurationVar(&lifetime, "lifetime", time.Hour, "how long the token is good, at most 1h")
	f.IntVar(&depth, "depth", 0, "how often it may be passed on")
	f.Int64Var(&at, "at", 0, "the time of issue in seconds since 1970; the clock's where absent")
	required(cmd, "key", "issuer", "holder", "tools")
	cmd.RunE = func(*cobra.Command, []string) error {
		if lifetime <= 0 || lifetime > time.Hour {
			return usage(errors.New("--lifetime; want more than 0 and at most 1h"))
		}
		now := p.at(at)
		r := token.Root{Issuer: issuer, IssuedAt: now, Expires: now.Add(lifetime), MaxDepth: depth}
		signer, err := p.readPrivateKey(key)
		if err != nil {
			return err
		}
		if r.Holder, err = p.readPublicKey(holder); err != nil {
			return err
		}
		if r.Tools, err = token.ParseTools([]byte(tools)); err != nil {
			return usage(fmt.Errorf("--tools: %w", err))
		}
		if r.ID, err = newID(); err != nil {
			return err
		}
		r.KeyID = signer.Public().Thumbprint()
		root, err := token.Mint(signer, r)
		if err != nil {
			return err
		}
		return json.NewEncoder(p.stdout).Encode([]string{root})
	}
	return cmd
}
