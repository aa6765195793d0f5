package capability

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/token"
)

func newToken(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "token",
		Short:   "Verify, inspect, derive and issue capability tokens offline",
		Example: "  powerbox token inspect --chain chain.json",
	}
	cmd.AddCommand(newTokenVerify(p), newTokenVerifyScopes(p), newTokenInspect(p), newTokenDerive(p), newTokenIssue(p))
	return cmd
}

// question is what the flags of `token verify` ask.
type question struct {
	anchors, chain, proof, arguments, audience string
	at                                         int64
	request                                    token.CheckRequest
}

func newTokenVerify(p *cli.Program) *cobra.Command {
	var q question
	cmd := &cobra.Command{
		Use:     "verify --anchors JWKS --issuer URI --chain FILE --proof FILE --operation NAME --arguments JSON --at UNIX",
		Short:   "Decide one call from files only",
		Example: "  powerbox token verify --anchors issuers.json --issuer https://issuer.example --chain chain.json --proof proof.jwt --operation search --arguments '{\"query\": \"Q1\"}' --at 1767225600",
		Long: "Verify checks a chain of tokens and the proof of one call against trusted keys, without a server. The chain is a JSON\n" +
			"array of compact tokens, root first. A malformed or missing part is denied with a reason. A file that cannot be read is\n" +
			"an error. Verify exits with 0 for allowed and 3 for denied.\n\n" +
			"Name this enforcement point with --identity. Tokens and proofs for somebody else are denied, also without it.",
	}
	output := cli.OutputFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&q.anchors, "anchors", "", "`file` with the JWK Set of the trusted issuer (required)")
	f.StringVar(&q.request.Issuer, "issuer", "", "URI of the issuer whose keys the anchors are; required for chains of draft -02")
	f.StringVar(&q.chain, "chain", "", "`file` with the chain (required)")
	f.StringVar(&q.proof, "proof", "", "`file` with the proof of the call")
	f.StringVar(&q.request.Operation, "operation", "", "exact name of the operation")
	f.StringVar(&q.arguments, "arguments", "", "arguments of the call, a JSON object")
	f.Int64Var(&q.at, "at", 0, "`time` of the decision, in seconds since 1970 (required)")
	f.StringArrayVar(&q.request.Point.Identity, "identity", nil, "audience identifier of this enforcement point; may be repeated")
	f.BoolVar(&q.request.Point.RequireAudience, "require-audience", false, "deny proofs that name no audience")
	f.BoolVar(&q.request.Point.ChainAudience, "require-chain-audience", false, "deny chains in which no token has an audience")
	f.StringVar(&q.request.Point.Nonce, "nonce", "", "nonce that the proof must carry; default: none")
	f.StringVar(&q.audience, "audience", "", "short for --identity with --require-audience")
	f.StringSliceVar(&q.request.Revoked, "revoked", nil, "revoked ids: jti of a token or hash of its signing input")
	f.BoolVar(&q.request.Draft01, "accept-draft-01", false, "accept chains of draft -01 of the token draft as well")
	f.BoolVar(&q.request.Strict, "strict", false, "deny constraint types that the draft does not define: path, url, cidr and glob")
	cli.Required(cmd, "anchors", "chain", "at")
	cmd.RunE = func(*cobra.Command, []string) error {
		r, err := q.read(p)
		if err != nil {
			return err
		}
		return answer(p, token.Check(r), *output)
	}
	return cmd
}

// read reads the files of a question.
func (q question) read(p *cli.Program) (token.CheckRequest, error) {
	r := q.request
	r.Arguments, r.At = []byte(q.arguments), time.Unix(q.at, 0)
	if q.audience != "" {
		r.Point.Identity, r.Point.RequireAudience = append(r.Point.Identity, q.audience), true
	}
	var err error
	if r.Anchors, err = p.ReadFile(q.anchors); err != nil {
		return r, err
	}
	if r.Chain, err = p.ReadFile(q.chain); err != nil {
		return r, err
	}
	if q.proof != "" {
		r.Proof, err = p.ReadFile(q.proof)
	}
	return r, err
}

// answer prints a decision. A denial is an answer, not an error.
func answer(p *cli.Program, result token.CheckResult, output string) error {
	if output == "json" {
		if err := json.NewEncoder(p.Stdout).Encode(result); err != nil {
			return err
		}
	} else if result.Allowed {
		cli.Printf(p.Stdout, "allow\n")
	} else {
		cli.Printf(p.Stdout, "deny\n")
		for _, e := range result.Reasons {
			cli.Printf(p.Stdout, "  %s\n", e.Error())
		}
	}
	if !result.Allowed {
		return cli.Exit(cli.ExitDenied, nil)
	}
	return nil
}

func newTokenInspect(p *cli.Program) *cobra.Command {
	var chain string
	cmd := &cobra.Command{
		Use:     "inspect --chain FILE",
		Short:   "Show the tokens of a chain, without verifying signatures",
		Example: "  powerbox token inspect --chain chain.json",
	}
	output := cli.OutputFlag(cmd)
	cmd.Flags().StringVar(&chain, "chain", "", "`file` with the chain (required)")
	cli.Required(cmd, "chain")
	cmd.RunE = func(*cobra.Command, []string) error {
		u, err := readChain(p, chain)
		if err != nil {
			return err
		}
		if *output == "json" {
			return json.NewEncoder(p.Stdout).Encode(linksJSON(u.Describe()))
		}
		for i, l := range u.Describe() {
			printLink(p, i, l)
		}
		cli.Printf(p.Stderr, "powerbox: no signature was verified\n")
		return nil
	}
	return cmd
}

func printLink(p *cli.Program, i int, l token.Link) {
	cli.Printf(p.Stdout, "token %d  %s\n", i, l.ID)
	if i == 0 {
		cli.Printf(p.Stdout, "  draft    -%s\n", l.Draft)
	}
	cli.Printf(p.Stdout, "  issuer   %s\n  holder   %s\n", l.Issuer, l.Holder)
	cli.Printf(p.Stdout, "  good     %s to %s\n", l.IssuedAt.Format(time.RFC3339), l.Expires.Format(time.RFC3339))
	cli.Printf(p.Stdout, "  depth    %d of %d\n  hash     %s\n", l.Depth, l.MaxDepth, l.Hash)
	for _, a := range l.Audience {
		cli.Printf(p.Stdout, "  for      %s\n", a)
	}
	for _, c := range l.Tools {
		cli.Printf(p.Stdout, "  may      %s%s\n", c.Pattern, cli.ArgumentsText(c.Shape))
	}
	for _, n := range l.Narrowed {
		cli.Printf(p.Stdout, "  narrowed %s\n", n)
	}
}

// linkJSON is the stable form of one token.
type linkJSON struct {
	Draft    string          `json:"draft"`
	ID       string          `json:"id"`
	Hash     string          `json:"hash"`
	Issuer   string          `json:"issuer"`
	Holder   string          `json:"holder"`
	IssuedAt time.Time       `json:"issued_at"`
	Expires  time.Time       `json:"expires"`
	Depth    int             `json:"depth"`
	MaxDepth int             `json:"max_depth"`
	Audience []string        `json:"audience"`
	Tools    json.RawMessage `json:"tools"`
	Narrowed []string        `json:"narrowed"`
}

func linksJSON(links []token.Link) []linkJSON {
	out := make([]linkJSON, len(links))
	for i, l := range links {
		out[i] = linkJSON{
			l.Draft.String(), l.ID, l.Hash, l.Issuer, l.Holder, l.IssuedAt, l.Expires, l.Depth, l.MaxDepth, append([]string{}, l.Audience...),
			token.ToolsJSON(l.Tools).AppendJSON(nil), append([]string{}, l.Narrowed...),
		}
	}
	return out
}

// readChain reads a chain file. What it holds is not verified.
func readChain(p *cli.Program, name string) (token.Unverified, error) {
	data, err := p.ReadFile(name)
	if err != nil {
		return token.Unverified{}, err
	}
	tokens, err := token.ParseChainFile(data)
	if err != nil {
		return token.Unverified{}, cli.Invalid(err)
	}
	u, err := token.ParseChain(tokens)
	return u, cli.Invalid(err)
}

// newID returns a UUIDv7, as the draft's section 3.2 recommends.
func newID() (string, error) {
	id, err := uuid.NewV7FromReader(rand.Reader)
	return id.String(), err
}

// timeOf returns the time that a flag gives, or the clock's.
func timeOf(p *cli.Program, unix int64) time.Time {
	if unix == 0 {
		return p.Now()
	}
	return time.Unix(unix, 0)
}

func newTokenDerive(p *cli.Program) *cobra.Command {
	var d derivation
	cmd := &cobra.Command{
		Use:     "derive --chain FILE --key FILE --holder FILE (--anchors JWKS | --unsafe-trust-root)",
		Short:   "Derive a narrower token, and print the longer chain",
		Example: "  powerbox token derive --chain chain.json --key holder.jwk --holder next-public.jwk --anchors issuers.json",
		Long: "Derive works offline, in the draft of the chain. It rejects extensions of authority, and lists all of them. Without\n" +
			"--tools all operations are kept. Without --expires the expiry is kept.",
	}
	f := cmd.Flags()
	f.StringVar(&d.chain, "chain", "", "`file` with the chain (required)")
	f.StringVar(&d.key, "key", "", "`file` with the private JWK of the chain's holder (required)")
	f.StringVar(&d.holder, "holder", "", "`file` with the public JWK of the next holder (required)")
	f.StringVar(&d.anchors, "anchors", "", "`file` with the JWK Set of the trusted issuers")
	f.BoolVar(&d.trustRoot, "unsafe-trust-root", false, "derive without knowing the issuer's key")
	f.StringVar(&d.tools, "tools", "", "operations to keep, a tools map as in the token")
	f.Int64Var(&d.expires, "expires", 0, "when the new token expires, in seconds since 1970")
	f.IntVar(&d.depth, "depth", 0, "how often the new token may be delegated")
	f.StringArrayVar(&d.audience, "audience", nil, "enforcement point that the new token may be presented to; may be repeated")
	f.BoolVar(&d.strict, "strict", false, "derive only what the table of the draft allows, without path, url, cidr and glob")
	f.Int64Var(&d.at, "at", 0, "`time` of derivation in seconds since 1970; default: now")
	cli.Required(cmd, "chain", "key", "holder")
	cmd.MarkFlagsMutuallyExclusive("anchors", "unsafe-trust-root")
	cmd.MarkFlagsOneRequired("anchors", "unsafe-trust-root")
	cmd.RunE = func(*cobra.Command, []string) error { return derive(p, d) }
	return cmd
}

type derivation struct {
	chain, key, holder, anchors, tools string
	audience                           []string
	trustRoot, strict                  bool
	expires, at                        int64
	depth                              int
}

func derive(p *cli.Program, d derivation) error {
	parent, err := readParent(p, d)
	if err != nil {
		return err
	}
	key, err := p.ReadPrivateKey(d.key)
	if err != nil {
		return err
	}
	n := token.Narrowing{Now: timeOf(p, d.at), Tools: parent.Tools(), MaxDepth: d.depth, Audience: d.audience, Strict: d.strict}
	if n.Holder, err = p.ReadPublicKey(d.holder); err != nil {
		return err
	}
	if n.ID, err = newID(); err != nil {
		return err
	}
	if d.tools != "" {
		if n.Tools, err = token.ParseTools([]byte(d.tools)); err != nil {
			return cli.Usage(fmt.Errorf("--tools: %w", err))
		}
	}
	if d.expires != 0 {
		n.Expires = time.Unix(d.expires, 0)
	}
	child, err := token.Derive(parent, key, n)
	if err != nil {
		return err
	}
	return json.NewEncoder(p.Stdout).Encode(append(parent.Tokens(), child))
}

// readParent reads and verifies the chain to derive from. A holder has no list
// of revocations; the enforcer of the new chain does.
func readParent(p *cli.Program, d derivation) (token.Verified, error) {
	u, err := readChain(p, d.chain)
	if err != nil {
		return token.Verified{}, err
	}
	o := token.Options{Now: timeOf(p, d.at), Revoked: token.UnsafeNothingRevoked, Draft01: true}
	if d.trustRoot {
		return u.UnsafeTrustRoot(o)
	}
	data, err := p.ReadFile(d.anchors)
	if err != nil {
		return token.Verified{}, err
	}
	anchors, err := token.ParseKeySet(data)
	if err != nil {
		return token.Verified{}, cli.Invalid(err)
	}
	return u.Verify(anchors, o)
}

// issuance is what the flags of `token issue` say.
type issuance struct {
	key, issuer, holder, tools, draft string
	audience                          []string
	lifetime                          time.Duration
	depth                             int
	at                                int64
	strict                            bool
}

func newTokenIssue(p *cli.Program) *cobra.Command {
	var i issuance
	cmd := &cobra.Command{
		Use:     "issue --key FILE --issuer URI --holder FILE --tools JSON",
		Short:   "Issue a root token with your own key",
		Long:    "Issue prints a chain of one token.",
		Example: "  powerbox token issue --key issuer.jwk --issuer https://issuer.example --holder holder-public.jwk --tools '{\"search\": {}}'",
	}
	f := cmd.Flags()
	f.StringVar(&i.key, "key", "", "`file` with the issuer's private JWK (required)")
	f.StringVar(&i.issuer, "issuer", "", "the issuer's URI (required)")
	f.StringVar(&i.holder, "holder", "", "`file` with the holder's public JWK (required)")
	f.StringVar(&i.tools, "tools", "", "operations that the holder may call, a tools map as in the token (required)")
	f.DurationVar(&i.lifetime, "lifetime", time.Hour, "lifetime of the token, at most 1h")
	f.IntVar(&i.depth, "depth", 0, "how often it may be delegated")
	f.StringArrayVar(&i.audience, "audience", nil, "enforcement point that the chain may be presented to; may be repeated")
	f.StringVar(&i.draft, "draft", "02", "draft of the whole chain: 02 or 01")
	f.BoolVar(&i.strict, "strict", false, "refuse constraint types that the draft does not define: path, url, cidr and glob")
	f.Int64Var(&i.at, "at", 0, "`time` of issue in seconds since 1970; default: now")
	cli.Required(cmd, "key", "issuer", "holder", "tools")
	cmd.RunE = func(*cobra.Command, []string) error { return i.issue(p) }
	return cmd
}

func (i issuance) issue(p *cli.Program) error {
	if i.lifetime <= 0 || i.lifetime > time.Hour {
		return cli.Usage(errors.New("--lifetime; want more than 0 and at most 1h"))
	}
	draft, ok := token.ParseDraft(i.draft)
	if !ok {
		return cli.Usage(fmt.Errorf("--draft is %q; want 02 or 01", i.draft))
	}
	now := timeOf(p, i.at)
	r := token.Root{
		Issuer: i.issuer, IssuedAt: now, Expires: now.Add(i.lifetime), MaxDepth: i.depth, Audience: i.audience, Draft: draft, Strict: i.strict,
	}
	signer, err := p.ReadPrivateKey(i.key)
	if err != nil {
		return err
	}
	if r.Holder, err = p.ReadPublicKey(i.holder); err != nil {
		return err
	}
	if r.Tools, err = token.ParseTools([]byte(i.tools)); err != nil {
		return cli.Usage(fmt.Errorf("--tools: %w", err))
	}
	if r.ID, err = newID(); err != nil {
		return err
	}
	r.KeyID = signer.Public().Thumbprint()
	root, err := token.Mint(signer, r)
	if err != nil {
		return err
	}
	return json.NewEncoder(p.Stdout).Encode([]string{root})
}
