package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	device, noBrowser             bool
}

func newLogin(p *cli.Program) *cobra.Command {
	var f loginFlags
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Log in to operate a server, or save a session for request and call",
		Long: "Login opens your identity provider in a browser, and keeps the session in your configuration folder with mode 0600.\n" +
			"The commands for operators then act in your name, as far as your roles permit. They refresh the session until the\n" +
			"server wants another login. Use --device on a machine without a browser: you enter a code in a browser elsewhere.\n\n" +
			"With --issuer, --client-id and --out, login gets an access token by a code instead, and writes it to a file for\n" +
			"--session-file of request, call and approval.",
		Example: "  powerbox login --server https://powerbox.example.org\n" +
			"  powerbox login --server https://powerbox.example.org --device\n" +
			"  powerbox login --issuer https://login.example.org --client-id powerbox --out session",
		Args: cobra.NoArgs,
	}
	o := cli.AddOperatorFlags(cmd)
	cmd.Flags().BoolVar(&f.device, "device", false, "log in by a code that you enter in a browser on any device")
	cmd.Flags().BoolVar(&f.noBrowser, "no-browser", false, "print the URL, and open no browser")
	cmd.Flags().StringVar(&f.issuer, "issuer", "", "with --out: `URL` of the identity provider, as in identity.providers")
	cmd.Flags().StringVar(&f.client, "client-id", "", "with --out: `id` of this program at the provider")
	cmd.Flags().StringVar(&f.audience, "audience", "", "with --out: audience of the token, if the provider needs one")
	cmd.Flags().StringSliceVar(&f.scopes, "scope", []string{oidc.ScopeOpenID}, "with --out: scopes to ask for")
	cmd.Flags().StringVar(&f.out, "out", "", "`file` that an access token is written to")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.out != "" || f.issuer != "" || f.client != "" {
			if f.out == "" || f.issuer == "" || f.client == "" {
				return cli.Usage(errors.New("want --issuer, --client-id and --out together; or --server alone, to operate that server"))
			}
			return loginToFile(cmd.Context(), p, f)
		}
		return operatorLogin(cmd.Context(), p, o, f)
	}
	return cmd
}

// operatorLogin logs a person in who operates a server.
func operatorLogin(ctx context.Context, p *cli.Program, o *cli.OperatorFlags, f loginFlags) error {
	server, err := p.ServerOf(o)
	if err != nil {
		return err
	}
	if _, err := p.SessionFile(server); err != nil {
		return err // before a person has gone through it
	}
	l, err := loginOf(ctx, server)
	if err != nil {
		return err
	}
	s := cli.Session{Server: server, Issuer: l.Issuer, ClientID: l.ClientID}
	ctx, provider, c, err := providerOf(ctx, l.Issuer, l.ClientID, append([]string{oidc.ScopeOpenID}, l.Scopes...))
	if err != nil {
		return err
	}
	nonce := ""
	var answer *oauth2.Token
	if f.device {
		answer, err = byCode(ctx, p, c, l.Issuer)
	} else {
		answer, nonce, err = byBrowser(ctx, p, c, l, !f.noBrowser)
	}
	if err != nil {
		return err
	}
	if s, err = cli.SessionOf(ctx, provider, answer, s, nonce); err != nil {
		return fmt.Errorf("not logged in: %w", err)
	}
	if err := p.SaveSession(s); err != nil {
		return err
	}
	who, err := whoAmI(ctx, p, o)
	if err != nil {
		return fmt.Errorf("the identity provider has logged you in, and the server refuses the session: %w", err)
	}
	cli.Printf(p.Stderr, "logged in at %s\n", server)
	who.print(p)
	return nil
}

// loginOf asks a server how people log in.
func loginOf(ctx context.Context, server string) (cli.LoginInfo, error) {
	l, err := cli.LoginAt(ctx, server)
	if err != nil {
		return l, err
	}
	return l, safeForLogin(l.Issuer)
}

// providerOf reads the configuration of an identity provider. Redirects are not followed
// and addresses are held to the policy, as for everything that verbs call.
func providerOf(ctx context.Context, issuer, client string, scopes []string) (context.Context, *oidc.Provider, *oauth2.Config, error) {
	ctx = oidc.ClientContext(ctx, cli.NewHTTPClient())
	provider, err := oidc.NewProvider(ctx, issuer)
	if err != nil {
		return ctx, nil, nil, fmt.Errorf("the configuration of the identity provider cannot be read: %w; check its URL %s", err, issuer)
	}
	c := &oauth2.Config{ClientID: client, Endpoint: provider.Endpoint(), Scopes: scopes}
	if c.Endpoint.AuthStyle = oauth2.AuthStyleInParams; !strings.HasPrefix(c.Endpoint.TokenURL, "http") {
		return ctx, nil, nil, fmt.Errorf("%s names no token endpoint", issuer)
	}
	return ctx, provider, c, safeForLogin(c.Endpoint.TokenURL)
}

// byCode logs in by a code that a person enters elsewhere (RFC 8628).
func byCode(ctx context.Context, p *cli.Program, c *oauth2.Config, issuer string, options ...oauth2.AuthCodeOption) (*oauth2.Token, error) {
	if c.Endpoint.DeviceAuthURL == "" {
		return nil, fmt.Errorf("%s offers no login by code (device_authorization_endpoint); have it switched on for this client", issuer)
	}
	if err := safeForLogin(c.Endpoint.DeviceAuthURL); err != nil {
		return nil, err
	}
	asked, err := c.DeviceAuth(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("the provider gives no code: %w", err)
	}
	cli.Printf(p.Stderr, "open %s and enter the code %s\n", asked.VerificationURI, asked.UserCode)
	answer, err := c.DeviceAccessToken(ctx, asked)
	if err != nil {
		return nil, fmt.Errorf("not logged in: %w", err)
	}
	return answer, nil
}

// loginToFile writes an access token to a file.
func loginToFile(ctx context.Context, p *cli.Program, f loginFlags) error {
	if err := safeForLogin(f.issuer); err != nil {
		return err
	}
	if err := cli.CanWrite(f.out); err != nil {
		return err // before a person has gone through it
	}
	ctx, _, c, err := providerOf(ctx, f.issuer, f.client, f.scopes)
	if err != nil {
		return err
	}
	var options []oauth2.AuthCodeOption
	if f.audience != "" {
		options = append(options, oauth2.SetAuthURLParam("audience", f.audience))
	}
	session, err := byCode(ctx, p, c, f.issuer, options...)
	if err != nil {
		return err
	}
	if err := cli.WriteSecret(f.out, session.AccessToken); err != nil {
		return err
	}
	until := ""
	if !session.Expiry.IsZero() {
		until = " until " + plain.Time(session.Expiry)
	}
	cli.Printf(p.Stderr, "logged in%s; the session is in %s\n", until, f.out)
	return nil
}

// safeForLogin refuses to log in over a network in the clear.
func safeForLogin(address string) error {
	if cli.SafeForToken(address) != nil {
		return cli.Usage(fmt.Errorf("the identity provider's address %q is none, or has no TLS, so that codes and tokens could be read on the way; want https", address))
	}
	return nil
}
