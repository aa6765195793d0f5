package operate

import (
	"context"
	"fmt"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/spf13/cobra"
	"golang.org/x/oauth2"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/plain"
)

// loginFlags say where a user logs in, and for what.
type loginFlags struct {
	issuer, client, audience, out string
	scopes                        []string
}

func newLogin(p *cli.Program) *cobra.Command {
	var f loginFlags
	cmd := &cobra.Command{
		Use:   "login --issuer URL --client-id ID --out FILE",
		Short: "Log in at an identity provider, and save the session in a file",
		Long: "Login asks the provider for a code (RFC 8628). You enter the code in a browser on this or another device. Login writes\n" +
			"the access token to FILE with mode 0600, for --session-file of request and call. It keeps no password and no refresh\n" +
			"token: log in again when the session ends.",
		Example: "  powerbox login --issuer https://login.example.org --client-id powerbox --out session\n" +
			"  powerbox request https://powerbox.example.org/agents/documents --session-file session ...",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&f.issuer, "issuer", "", "`URL` of the identity provider, as in identity.providers (required)")
	cmd.Flags().StringVar(&f.client, "client-id", "", "`id` of this program at the provider (required)")
	cmd.Flags().StringVar(&f.audience, "audience", "", "audience of the token, if the provider needs one")
	cmd.Flags().StringSliceVar(&f.scopes, "scope", []string{oidc.ScopeOpenID}, "scopes to ask for")
	cmd.Flags().StringVar(&f.out, "out", "", "`file` that the access token is written to (required)")
	cli.Required(cmd, "issuer", "client-id", "out")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return login(cmd.Context(), p, f) }
	return cmd
}

func login(ctx context.Context, p *cli.Program, f loginFlags) error {
	if err := safeForLogin(f.issuer); err != nil {
		return err
	}
	if err := cli.CanWrite(f.out); err != nil {
		return err // before a person has gone through it
	}
	// Redirects are not followed and addresses are held to the policy, as for
	// everything that verbs call.
	ctx = oidc.ClientContext(ctx, cli.NewHTTPClient())
	provider, err := oidc.NewProvider(ctx, f.issuer)
	if err != nil {
		return fmt.Errorf("the configuration of the identity provider cannot be read: %w; check --issuer", err)
	}
	endpoint := provider.Endpoint()
	if endpoint.DeviceAuthURL == "" {
		return fmt.Errorf("%s offers no login by code (device_authorization_endpoint); have it switched on for this client", f.issuer)
	}
	for _, address := range []string{endpoint.DeviceAuthURL, endpoint.TokenURL} {
		if err := safeForLogin(address); err != nil {
			return err
		}
	}
	var options []oauth2.AuthCodeOption
	if f.audience != "" {
		options = append(options, oauth2.SetAuthURLParam("audience", f.audience))
	}
	c := oauth2.Config{ClientID: f.client, Endpoint: endpoint, Scopes: f.scopes}
	asked, err := c.DeviceAuth(ctx, options...)
	if err != nil {
		return fmt.Errorf("the provider gives no code: %w", err)
	}
	fmt.Fprintf(p.Stderr, "open %s and enter the code %s\n", asked.VerificationURI, asked.UserCode)
	session, err := c.DeviceAccessToken(ctx, asked)
	if err != nil {
		return fmt.Errorf("not logged in: %w", err)
	}
	if err := cli.WriteSecret(f.out, session.AccessToken); err != nil {
		return err
	}
	until := ""
	if !session.Expiry.IsZero() {
		until = " until " + plain.Time(session.Expiry)
	}
	fmt.Fprintf(p.Stderr, "logged in%s; the session is in %s\n", until, f.out)
	return nil
}

// safeForLogin refuses to log in over a network in the clear.
func safeForLogin(address string) error {
	if cli.SafeForToken(address) != nil {
		return cli.Usage(fmt.Errorf("the identity provider's address %q is none, or has no TLS, so that codes and tokens could be read on the way; want https", address))
	}
	return nil
}
