package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/web/api"
)

// me is the caller, as the server knows it.
type me struct{ api.WhoAmI }

const pathWhoAmI = "/v1/whoami"

func whoAmI(ctx context.Context, p *cli.Program, o *cli.OperatorFlags) (me, error) {
	var out me
	op, err := p.Operator(o)
	if err == nil {
		err = op.Get(ctx, pathWhoAmI, &out)
	}
	return out, err
}

// print says who calls, and what that person may do.
func (m me) print(p *cli.Program) {
	listed := func(all []string, none string) string { return cmp.Or(strings.Join(all, ", "), none) }
	cli.Printf(p.Stdout, "%s\nroles: %s\n", m.Name, listed(m.Roles, "none; an administrator gives roles in operators.roles"))
	if len(m.Permissions) > 0 {
		cli.Printf(p.Stdout, "at every agent: %s\n", listed(m.Permissions, "nothing"))
	}
	for _, a := range m.Agents {
		cli.Printf(p.Stdout, "at %s: %s\n", a.Agent, listed(a.Permissions, "nothing"))
	}
}

func newWhoAmI(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "whoami",
		Short:   "Show as whom your commands act, and what your roles permit",
		Example: "  powerbox whoami --server https://powerbox.example.org",
		Args:    cobra.NoArgs,
	}
	v := p.OperatorVerb(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return cli.Show(cmd.Context(), v, cli.Get(pathWhoAmI), func(who me) error {
			who.print(p)
			return nil
		})
	}
	return cmd
}

func newLogout(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "logout",
		Short:   "End the session that powerbox login keeps",
		Long:    "Logout removes the session at a server from your configuration folder, and has the identity provider end its refresh token.",
		Example: "  powerbox logout --server https://powerbox.example.org",
		Args:    cobra.NoArgs,
	}
	o := cli.AddOperatorFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		server, err := p.ServerOf(o)
		if err != nil {
			return err
		}
		s, err := p.LoadSession(server)
		if errors.Is(err, cli.ErrNoSession) {
			cli.Printf(p.Stderr, "you are not logged in at %s\n", server)
			return nil
		}
		if removed := p.ForgetSession(server); removed != nil && !errors.Is(removed, os.ErrNotExist) {
			return removed
		}
		cli.Printf(p.Stderr, "logged out of %s\n", server)
		if err != nil || s.Refresh == "" {
			return nil //nolint:nilerr // a file that is no session is gone
		}
		if err := revoke(cmd.Context(), s); err != nil {
			return fmt.Errorf("the session is removed here, and the identity provider did not end its refresh token: %w", err)
		}
		return nil
	}
	return cmd
}

// revoke has the provider end the refresh token (RFC 7009).
func revoke(ctx context.Context, s cli.Session) error {
	client := cli.NewHTTPClient()
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), s.Issuer)
	if err != nil {
		return err
	}
	var more struct {
		Revocation string `json:"revocation_endpoint"`
	}
	if err := provider.Claims(&more); err != nil || more.Revocation == "" {
		return errors.Join(err, errors.New("it has no revocation endpoint; end the session there"))
	}
	if err := safeForLogin(more.Revocation); err != nil {
		return err
	}
	form := url.Values{"token": {s.Refresh}, "token_type_hint": {"refresh_token"}, "client_id": {s.ClientID}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, more.Revocation, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // nothing in it is wanted
	if answer.StatusCode != http.StatusOK {
		return errors.New("it answers " + answer.Status)
	}
	return nil
}
