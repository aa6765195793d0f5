package console

import (
	"crypto/subtle"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// loginPage is how someone can log in here.
type loginPage struct {
	Next     string
	Again    bool // the visitor is logged in already
	Users    []string
	Provider string // host of the OpenID provider, "" for none
	Passkeys bool
}

// ours returns a path of this server to continue at, and the first page for anything
// else. Paths that agents answer are not ours, although they may be here: no login leads
// there, with a cookie that other sites cannot have sent (ATK-47).
func ours(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return "/approve"
	}
	if at := path.Clean(u.Path); at == agents || strings.HasPrefix(at, agents+"/") {
		return "/approve"
	}
	return next
}

// agents is below which path the agents behind answer.
const agents = "/agents"

func (k *Console) login(v *visit) error {
	next := ours(v.r.URL.Query().Get("next"))
	// A link from elsewhere comes without the strict cookie. The page asks for
	// itself once more, and then it is there.
	if v.session == nil && v.r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		return k.show(v, "onward", next)
	}
	page := loginPage{Next: next, Again: v.session != nil, Users: k.config.Users, Passkeys: k.passkeys != nil}
	if k.config.Login != nil {
		page.Provider = k.config.Login.host()
	}
	return k.show(v, "login", page)
}

// loginByName logs in a built-in user, in experiments.
func (k *Console) loginByName(v *visit) error {
	name := v.r.PostFormValue("user")
	if !slices.Contains(k.config.Users, name) {
		return agentauth.Errorf(agentauth.CodeUnauthorized, "there is no such built-in user")
	}
	if err := k.logIn(v, people.Claim{Principal: "user:" + name, Groups: k.config.Groups["user:"+name], Login: people.ByName}); err != nil {
		return err
	}
	return v.see(ours(v.r.PostFormValue("next")))
}

func (k *Console) logout(v *visit) error {
	k.sessions.end(k.cookie(v.r, sessionCookie))
	k.setCookie(v.w, sessionCookie, "", 0)
	return v.see("/login")
}

// first is where the first administrator begins, by the secret that was printed
// when the server started.
func (k *Console) first(v *visit) error {
	return k.show(v, "first", map[string]string{"Secret": v.r.URL.Query().Get("secret")})
}

// beFirst logs in the first administrator, once, as long as that name has no passkey:
// from then on passkeys are the only way.
func (k *Console) beFirst(v *visit) error {
	gone := agentauth.Errorf(agentauth.CodeUnauthorized, "the link does not hold, or has been used; the server prints one at its start while there is no administrator")
	if k.config.FirstSecret == "" || subtle.ConstantTimeCompare([]byte(v.r.PostFormValue("secret")), []byte(k.config.FirstSecret)) != 1 {
		return gone
	}
	have, err := k.config.Passkeys.Passkeys(v.r.Context(), k.config.First)
	if err != nil {
		return err
	}
	// The URL stands in a log: it is good once, also where the first passkey is taken out again.
	if len(have) > 0 || !k.begun.CompareAndSwap(false, true) {
		return gone
	}
	if err := k.logIn(v, people.Claim{Principal: k.config.First, Groups: k.config.Groups[k.config.First], Login: people.ByInvite}); err != nil {
		return err
	}
	http.Redirect(v.w, v.r, "/passkeys", http.StatusSeeOther)
	return nil
}
