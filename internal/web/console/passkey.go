package console

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// signTime is how long a challenge can be signed.
const signTime = 2 * time.Minute

// relyingParty is this server where passkeys are made, or nil where its URL has an
// address in place of a name: browsers make none there.
func relyingParty(u *url.URL, name string) (*webauthn.WebAuthn, error) {
	if net.ParseIP(u.Hostname()) != nil {
		return nil, nil //nolint:nilnil // no passkeys is an answer
	}
	w, err := webauthn.New(&webauthn.Config{
		RPID: u.Hostname(), RPDisplayName: name, RPOrigins: []string{u.Scheme + "://" + u.Host},
		AuthenticatorSelection: protocol.AuthenticatorSelection{UserVerification: protocol.VerificationRequired, ResidentKey: protocol.ResidentKeyRequirementPreferred},
	})
	if err != nil {
		return nil, fmt.Errorf("console: passkeys: %w", err)
	}
	return w, nil
}

// account is a person as authenticators know one.
type account struct {
	principal   string
	credentials []webauthn.Credential
}

// WebAuthnID is a hash, so that a security key does not reveal the name itself.
func (a account) WebAuthnID() []byte {
	sum := sha256.Sum256([]byte("powerbox " + a.principal))
	return sum[:]
}
func (a account) WebAuthnName() string                       { return a.principal }
func (a account) WebAuthnDisplayName() string                { return a.principal }
func (a account) WebAuthnCredentials() []webauthn.Credential { return a.credentials }

func (k *Console) account(ctx context.Context, principal string) (account, error) {
	keys, err := k.config.Passkeys.Passkeys(ctx, principal)
	a := account{principal: principal}
	for _, one := range keys {
		var c webauthn.Credential
		if err := json.Unmarshal(one.Credential, &c); err != nil {
			return a, fmt.Errorf("console: a stored passkey is damaged: %w", err)
		}
		a.credentials = append(a.credentials, c)
	}
	return a, err
}

var errNoPasskeys = agentauth.Errorf(agentauth.CodeUnavailable,
	"there are no passkeys at a numeric address; have the server's URL carry a name, such as http://localhost:8700")

// challenge asks the visitor's passkey to sign an answer: the challenge is the
// hash of the answer's digest and of a number that is used once.
func (k *Console) challenge(v *visit, who provider.Person, purpose, digest string) error {
	if k.passkeys == nil {
		return errNoPasskeys
	}
	a, err := k.account(v.r.Context(), who.Principal)
	if err != nil {
		return err
	}
	if len(a.credentials) == 0 {
		return agentauth.Errorf(agentauth.CodeUnauthorized, "you have no passkey yet; add one under Passkeys, and come back")
	}
	c := &ceremony{purpose: purpose, digest: digest, nonce: make([]byte, 32), until: k.config.Now().Add(signTime)}
	if _, err := io.ReadFull(k.config.Random, c.nonce); err != nil {
		return err
	}
	options, data, err := k.passkeys.BeginLogin(a, webauthn.WithChallenge(c.challenge()), webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return fmt.Errorf("console: passkey: %w", err)
	}
	c.data = *data
	if err := v.session.begin(c); err != nil {
		return err
	}
	return v.json(options)
}

// challenge is the value that a passkey signs.
func (c *ceremony) challenge() []byte {
	sum := sha256.New()
	sum.Write([]byte("powerbox approval\n" + c.digest + "\n"))
	sum.Write(c.nonce)
	return sum.Sum(nil)
}

// signed checks that the visitor's passkey has signed the answer of that digest,
// in the ceremony that was begun last. It returns the passkey's id.
func (k *Console) signed(v *visit, who provider.Person, purpose, digest string) (string, error) {
	refused := agentauth.Errorf(agentauth.CodeUnauthorized, "the passkey did not sign what is asked now; look at it again")
	c := v.session.take(purpose, k.config.Now())
	if c == nil || k.passkeys == nil {
		return "", refused
	}
	// The present answer, not the one when the challenge was made.
	c.digest = digest
	c.data.Challenge = protocol.URLEncodedBase64(c.challenge()).String()
	a, err := k.account(v.r.Context(), who.Principal)
	if err != nil {
		return "", err
	}
	response, err := protocol.ParseCredentialRequestResponseBytes([]byte(v.r.PostFormValue("assertion")))
	if err != nil {
		return "", refused
	}
	credential, err := k.passkeys.ValidateLogin(a, c.data, response)
	if err != nil {
		return "", refused
	}
	return base64.RawURLEncoding.EncodeToString(credential.ID), k.used(v.r.Context(), credential)
}

// used stores the counter of a passkey, and refuses one that counts backwards:
// someone has made a copy.
func (k *Console) used(ctx context.Context, credential *webauthn.Credential) error {
	if credential.Authenticator.CloneWarning {
		return agentauth.Errorf(agentauth.CodeUnauthorized, "the passkey may have been copied: its counter went backwards; remove it and use another")
	}
	data, err := json.Marshal(credential)
	if err != nil {
		return err
	}
	return k.config.Passkeys.UsedPasskey(ctx, credential.ID, data)
}

// json answers a script.
func (v *visit) json(body any) error {
	v.wrote = true
	v.w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(v.w).Encode(body)
}

// loginChallenge begins a login with whichever passkey the person has.
func (k *Console) loginChallenge(v *visit) error {
	if k.passkeys == nil {
		return errNoPasskeys
	}
	options, data, err := k.passkeys.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return fmt.Errorf("console: passkey: %w", err)
	}
	cookie, err := k.sessions.try(&attempt{ceremony: ceremony{data: *data}})
	if err != nil {
		return err
	}
	k.setCookie(v.w, loginCookie, cookie, loginTime)
	return v.json(options)
}

func (k *Console) loginByPasskey(v *visit) error {
	refused := agentauth.Errorf(agentauth.CodeUnauthorized, "the passkey is not known here; log in another way")
	a := k.sessions.tried(k.cookie(v.r, loginCookie))
	if a == nil || a.ceremony.data.Challenge == "" || k.passkeys == nil {
		return refused
	}
	response, err := protocol.ParseCredentialRequestResponseBytes([]byte(v.r.PostFormValue("assertion")))
	if err != nil {
		return refused
	}
	find := func(id, handle []byte) (webauthn.User, error) {
		key, err := k.config.Passkeys.Passkey(v.r.Context(), id)
		if err != nil {
			return nil, err
		}
		who, err := k.account(v.r.Context(), key.Principal)
		if string(who.WebAuthnID()) != string(handle) {
			return nil, errors.New("console: the passkey belongs to another person")
		}
		return who, err
	}
	user, credential, err := k.passkeys.ValidatePasskeyLogin(find, a.ceremony.data, response)
	if err != nil {
		return refused
	}
	if err := k.sessions.finish(v.r.Context(), a); err != nil {
		return err
	}
	if err := k.used(v.r.Context(), credential); err != nil {
		return err
	}
	if err := k.logIn(v, people.Claim{Principal: user.WebAuthnName(), Groups: k.config.Groups[user.WebAuthnName()], Login: people.ByPasskey}); err != nil {
		return err
	}
	return v.see(ours(v.r.PostFormValue("next")))
}

type passkeysPage struct {
	Keys            []provider.Passkey
	Possible, Fresh bool
}

func (k *Console) ownPasskeys(v *visit) error {
	who, err := k.person(v)
	if err != nil {
		return err
	}
	keys, err := k.config.Passkeys.Passkeys(v.r.Context(), who.Principal)
	if err != nil {
		return err
	}
	return k.show(v, "passkeys", passkeysPage{Keys: keys, Possible: k.passkeys != nil, Fresh: k.fresh(v)})
}

// registering returns the person who adds or removes a passkey: someone who has logged
// in just now.
func (k *Console) registering(v *visit) (provider.Person, error) {
	who, err := k.person(v)
	switch {
	case err != nil:
		return who, err
	case !k.fresh(v):
		return who, agentauth.Errorf(agentauth.CodeUnauthorized, "%s", v.T("log in again first: your login is older than %s", lasting(v.Language, k.config.Fresh)))
	}
	return who, nil
}

// The texts that a passkey signs where passkeys themselves are changed. A login with one
// is not enough: a program in the browser would make itself a passkey, or take the
// person's out, and approve with its own from then on (ATK-47).
func adding(who provider.Person) string { return "add a passkey\n" + who.Principal }

func removing(who provider.Person, id string) string {
	return "remove a passkey\n" + who.Principal + "\n" + id
}

// confirmChallenge asks a passkey of the person to agree to another one.
func (k *Console) confirmChallenge(v *visit) error {
	who, err := k.registering(v)
	if err != nil {
		return err
	}
	return k.challenge(v, who, "add", adding(who))
}

// removeChallenge asks a passkey of the person to agree that one is taken out.
func (k *Console) removeChallenge(v *visit) error {
	who, err := k.registering(v)
	if err != nil {
		return err
	}
	return k.challenge(v, who, "remove", removing(who, v.r.PostFormValue("passkey")))
}

func (k *Console) newPasskeyChallenge(v *visit) error {
	if k.passkeys == nil {
		return errNoPasskeys
	}
	who, err := k.registering(v)
	if err != nil {
		return err
	}
	a, err := k.account(v.r.Context(), who.Principal)
	if err != nil {
		return err
	}
	if len(a.credentials) > 0 {
		if _, err := k.signed(v, who, "add", adding(who)); err != nil {
			return err
		}
		who.Present = true
	}
	options, data, err := k.passkeys.BeginRegistration(a, webauthn.WithExclusions(webauthn.Credentials(a.credentials).CredentialDescriptors()))
	if err != nil {
		return fmt.Errorf("console: passkey: %w", err)
	}
	if err := v.session.begin(&ceremony{purpose: "register", present: who.Present, data: *data, until: k.config.Now().Add(signTime)}); err != nil {
		return err
	}
	return v.json(options)
}

func (k *Console) newPasskey(v *visit) error {
	who, err := k.registering(v)
	if err != nil {
		return err
	}
	refused := agentauth.Errorf(agentauth.CodeInvalidRequest, "the passkey was not made as it was asked for; try again")
	c := v.session.take("register", k.config.Now())
	if c == nil || k.passkeys == nil {
		return refused
	}
	who.Present = c.present
	response, err := protocol.ParseCredentialCreationResponseBytes([]byte(v.r.PostFormValue("credential")))
	if err != nil {
		return refused
	}
	a, err := k.account(v.r.Context(), who.Principal)
	if err != nil {
		return err
	}
	credential, err := k.passkeys.CreateCredential(a, c.data, response)
	if err != nil || !credential.Flags.UserVerified {
		return refused
	}
	data, err := json.Marshal(credential)
	if err != nil {
		return err
	}
	if err := k.config.Passkeys.AddPasskey(v.r.Context(), who, provider.Passkey{ID: credential.ID, Name: v.r.PostFormValue("name"), Credential: data}); err != nil {
		return err
	}
	return v.see("/passkeys")
}

func (k *Console) removePasskey(v *visit) error {
	who, err := k.registering(v)
	if err != nil {
		return err
	}
	id, err := base64.RawURLEncoding.DecodeString(v.r.PostFormValue("passkey"))
	if err != nil {
		return agentauth.Errorf(agentauth.CodeInvalidRequest, "the passkey is none")
	}
	if _, err := k.signed(v, who, "remove", removing(who, v.r.PostFormValue("passkey"))); err != nil {
		return err
	}
	who.Present = true
	if err := k.config.Passkeys.RemovePasskey(v.r.Context(), who, id); err != nil {
		return err
	}
	http.Redirect(v.w, v.r, "/passkeys", http.StatusSeeOther)
	return nil
}
