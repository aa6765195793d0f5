package credential

import (
	"context"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/powerbox-project/powerbox/internal/config"
)

// Client is an operator's client at an OAuth server that the agent believes.
type Client struct {
	ID           string
	Secret       Source // nil for a public client
	TokenURL     string
	AuthorizeURL string // where persons consent
	RedirectURL  string
	Scopes       []string
	Resource     string       // RFC 8707, "" for none
	HTTP         *http.Client // follows no redirect
}

// Get is for [Kept]: the client's own token, by its own credentials (RFC 6749, 4.4).
func (c Client) Get(ctx context.Context, _ string) (Got, error) {
	secret, err := c.secret(ctx)
	if err != nil {
		return Got{}, err
	}
	own := clientcredentials.Config{ClientID: c.ID, ClientSecret: secret, TokenURL: c.TokenURL, Scopes: c.Scopes, AuthStyle: oauth2.AuthStyleInHeader}
	if c.Resource != "" {
		own.EndpointParams = url.Values{"resource": {c.Resource}}
	}
	token, err := own.Token(context.WithValue(ctx, oauth2.HTTPClient, c.HTTP))
	if err != nil {
		return Got{}, told(err)
	}
	return gotOf(token)
}

func (c Client) secret(ctx context.Context) (string, error) {
	if c.Secret == nil {
		return "", nil
	}
	secret, err := c.Secret.Secret(ctx, "", config.Secret{})
	if err != nil {
		return "", fmt.Errorf("the secret of client %q: %w", c.ID, err)
	}
	return secret.Reveal(), nil
}

// gotOf is an access token with its end.
func gotOf(t *oauth2.Token) (Got, error) {
	if t.AccessToken == "" {
		return Got{}, errors.New("the token endpoint answers without an access token")
	}
	return Got{config.NewSecret(t.AccessToken), t.Expiry}, nil
}

// told says of an error of a token endpoint what can be said: its body may hold secrets.
func told(err error) error {
	var answer *oauth2.RetrieveError
	if !errors.As(err, &answer) {
		return errors.New("the token endpoint cannot be reached, or its answer cannot be read")
	}
	return fmt.Errorf("the token endpoint answers %d %.64q", answer.Response.StatusCode, answer.ErrorCode)
}

// isInvalidGrant reports that a refresh token or code is not good any more.
func isInvalidGrant(err error) bool {
	var answer *oauth2.RetrieveError
	return errors.As(err, &answer) && answer.ErrorCode == "invalid_grant"
}

// Consents keeps what persons consented to, sealed.
type Consents interface {
	// Consent returns a person's stored consent at an agent, nil for none.
	Consent(ctx context.Context, agent, person string) ([]byte, error)
	// KeepConsent keeps it. It removes it where sealed is nil.
	KeepConsent(ctx context.Context, agent, person string, sealed []byte) error
}

// Users gets access tokens for the person behind a call, with the refresh token that the
// person's consent gave.
type Users struct {
	Client
	Agent    string
	Consents Consents
	Seal     cipher.AEAD // of refresh tokens; it makes its own nonces
	Page     string      // URL where a person consents
}

// attempt is the state of a consent that is under way, sealed.
type attempt struct {
	Person   string    `json:"p"`
	Verifier string    `json:"v"`
	Until    time.Time `json:"u"`
}

// consentTime is how long a person may take to consent.
const consentTime = 15 * time.Minute

func (u *Users) about(kind, person string) []byte {
	return []byte("powerbox credential " + kind + "\n" + u.Agent + "\n" + person)
}

func (u *Users) config(ctx context.Context) (*oauth2.Config, error) {
	secret, err := u.secret(ctx)
	style := oauth2.AuthStyleInHeader
	if secret == "" {
		style = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: u.ID, ClientSecret: secret, RedirectURL: u.RedirectURL, Scopes: u.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: u.AuthorizeURL, TokenURL: u.TokenURL, AuthStyle: style},
	}, err
}

// Begin returns the address at which a person consents.
func (u *Users) Begin(ctx context.Context, person string, now time.Time) (string, error) {
	c, err := u.config(ctx)
	if err != nil {
		return "", err
	}
	a := attempt{person, oauth2.GenerateVerifier(), now.Add(consentTime)}
	plain, err := json.Marshal(a)
	if err != nil {
		return "", err
	}
	state := base64.RawURLEncoding.EncodeToString(u.Seal.Seal(nil, nil, plain, u.about("attempt", ""))) //nolint:gosec // this AEAD makes its own nonces
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(a.Verifier), oauth2.AccessTypeOffline}
	if u.Resource != "" {
		options = append(options, oauth2.SetAuthURLParam("resource", u.Resource))
	}
	return c.AuthCodeURL(state, options...), nil
}

// ErrAttempt is an answer to a consent that was not begun here, by another person, or too
// long ago.
var ErrAttempt = errors.New("this consent was not begun here by you in the last 15 minutes; begin again")

// Finish keeps what a person consented to.
func (u *Users) Finish(ctx context.Context, person, state, code string, now time.Time) error {
	data, err := base64.RawURLEncoding.DecodeString(state)
	if err != nil {
		return ErrAttempt
	}
	plain, err := u.Seal.Open(nil, nil, data, u.about("attempt", ""))
	var a attempt
	if err != nil || json.Unmarshal(plain, &a) != nil || a.Person != person || !now.Before(a.Until) {
		return ErrAttempt
	}
	c, err := u.config(ctx)
	if err != nil {
		return err
	}
	options := []oauth2.AuthCodeOption{oauth2.VerifierOption(a.Verifier)}
	if u.Resource != "" {
		options = append(options, oauth2.SetAuthURLParam("resource", u.Resource))
	}
	token, err := c.Exchange(context.WithValue(ctx, oauth2.HTTPClient, u.HTTP), code, options...)
	if err != nil {
		return told(err)
	}
	if token.RefreshToken == "" {
		return errors.New("the OAuth server gave no refresh token; its operator may have to allow the scope offline_access")
	}
	return u.keep(ctx, person, token.RefreshToken)
}

func (u *Users) keep(ctx context.Context, person, refresh string) error {
	return u.Consents.KeepConsent(ctx, u.Agent, person, u.Seal.Seal(nil, nil, []byte(refresh), u.about("refresh", person))) //nolint:gosec // this AEAD makes its own nonces
}

// refreshToken returns what a person consented to.
func (u *Users) refreshToken(ctx context.Context, person string) (string, error) {
	if person == "" {
		return "", errors.New("there is no person behind the call")
	}
	sealed, err := u.Consents.Consent(ctx, u.Agent, person)
	if err != nil {
		return "", err
	}
	if sealed == nil {
		return "", &ConsentError{u.Page}
	}
	plain, err := u.Seal.Open(nil, nil, sealed, u.about("refresh", person))
	if err != nil { // under a key that was replaced
		return "", &ConsentError{u.Page}
	}
	return string(plain), nil
}

// Get is for [Kept]: an access token for a person.
func (u *Users) Get(ctx context.Context, person string) (Got, error) {
	refresh, err := u.refreshToken(ctx, person)
	if err != nil {
		return Got{}, err
	}
	token, err := u.refresh(ctx, refresh)
	if isInvalidGrant(err) {
		// Another node may have used it in between, and kept the next one.
		next, errNext := u.refreshToken(ctx, person)
		switch {
		case errNext != nil:
			return Got{}, errNext
		case next == refresh:
			return Got{}, errors.Join(&ConsentError{u.Page}, u.Consents.KeepConsent(ctx, u.Agent, person, nil))
		}
		refresh = next
		token, err = u.refresh(ctx, refresh)
	}
	if err != nil {
		return Got{}, told(err)
	}
	if token.RefreshToken != "" && token.RefreshToken != refresh {
		// Before the access token is used: the one before may be void already.
		if err := u.keep(ctx, person, token.RefreshToken); err != nil {
			return Got{}, err
		}
	}
	return gotOf(token)
}

func (u *Users) refresh(ctx context.Context, refresh string) (*oauth2.Token, error) {
	c, err := u.config(ctx)
	if err != nil {
		return nil, err
	}
	return c.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, u.HTTP), &oauth2.Token{RefreshToken: refresh}).Token()
}
