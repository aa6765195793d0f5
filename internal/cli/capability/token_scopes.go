package capability

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/token"
)

// newTokenVerifyScopes is `token verify` for scope tokens.
func newTokenVerifyScopes(p *cli.Program) *cobra.Command {
	var keys, file, links, at string
	var q token.ScopeCheckRequest
	cmd := &cobra.Command{
		Use:     "verify-scopes --token FILE --scope SCOPE --caller ID --at TIME",
		Short:   "Decide from files only whether a caller holds scopes",
		Example: "  powerbox token verify-scopes --token scope-token.json --scope documents:read --caller client:reader --keys signers.json --at 2026-03-04T12:00:00Z",
		Long: "Verify-scopes checks a scope token of the authorization extension and its delegation links, without a server. In the JWK\n" +
			"Set of --keys, kid is the identifier of the key's owner. A did:jwk identifier is its own key. A malformed or missing part\n" +
			"is denied with a reason. A file that cannot be read is an error. The result has a reason and the failure_point: the\n" +
			"index of the link, or -1 for the token. Verify-scopes exits with 0 for valid and 3 for denied.",
	}
	output := cli.OutputFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&file, "token", "", "`file` with the scope token, JSON (required)")
	f.StringVar(&links, "links", "", "`file` with the delegation chain, a JSON array; default: no links")
	f.StringVar(&keys, "keys", "", "`file` with a JWK Set of the signers whose identifier is not a did:jwk")
	f.StringSliceVar(&q.Requested, "scope", nil, "requested scope; may be repeated (required)")
	f.StringVar(&q.Caller, "caller", "", "`identifier` of the caller that presents it (required)")
	f.StringVar(&at, "at", "", "`time` of the decision, such as 2026-03-04T12:00:00Z (required)")
	f.IntVar(&q.MaxDepth, "max-depth", token.MaxDepth, "how many links are accepted")
	f.DurationVar(&q.MaxLifetime, "max-lifetime", token.MaxLifetime, "longest accepted life of a token or link")
	f.StringSliceVar(&q.Revoked, "revoked", nil, "hash of a revoked token or revocation id of a link; may be repeated")
	cli.Required(cmd, "token", "scope", "caller", "at")
	cmd.RunE = func(*cobra.Command, []string) error {
		var err error
		if q.At, err = time.Parse(time.RFC3339Nano, at); err != nil {
			return cli.Usage(fmt.Errorf("--at is %q; want a time such as 2026-03-04T12:00:00Z", at))
		}
		q.Keys = []byte(`{"keys":[]}`)
		for _, read := range []struct {
			name string
			into *[]byte
		}{{file, &q.Token}, {links, &q.Links}, {keys, &q.Keys}} {
			if read.name == "" {
				continue
			}
			if *read.into, err = p.ReadFile(read.name); err != nil {
				return err
			}
		}
		return scopeAnswer(p, token.CheckScopes(q), *output)
	}
	return cmd
}

// scopeAnswer prints a result. A refusal is an answer, not an error.
func scopeAnswer(p *cli.Program, r token.ScopeResult, output string) error {
	switch {
	case output == "json":
		if err := json.NewEncoder(p.Stdout).Encode(r); err != nil {
			return err
		}
	case r.Valid:
		cli.Printf(p.Stdout, "valid until %s, %d links: %s\n", r.EffectiveExpiry.Format(time.RFC3339Nano), r.ChainLength, strings.Join(r.EffectiveScopes, " "))
	case r.FailurePoint == token.OfToken:
		cli.Printf(p.Stdout, "not valid, token: %s: %s\n", r.Reason, r.Message)
	default:
		cli.Printf(p.Stdout, "not valid, link %d: %s: %s\n", r.FailurePoint, r.Reason, r.Message)
	}
	if !r.Valid {
		return cli.Exit(cli.ExitDenied, nil)
	}
	return nil
}
