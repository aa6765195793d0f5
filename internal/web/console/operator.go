package console

import (
	"crypto/sha256"
	"encoding/base64"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/web/operations"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// operating returns the visitor of a page that a role must permit.
func (k *Console) operating(v *visit, route operations.Route) (provider.Person, error) {
	who, err := k.person(v)
	if err == nil && !route.Permits(k.rights(who)) {
		text := lang.Mark("this page needs the permission %s; an administrator gives roles in operators.roles")
		if route.Whole {
			text = lang.Mark("this page needs the permission %s at every agent; an administrator gives roles in operators.roles")
		}
		err = agentauth.Errorf(agentauth.CodeUnauthorized, "%s", v.T(text, route.Needs))
	}
	return who, err
}

// rights are what a person may do here by roles.
func (k *Console) rights(who provider.Person) people.Rights {
	if k.config.Rights == nil {
		return people.Rights{}
	}
	return k.config.Rights(who)
}

// operate answers with a page for operators.
func (k *Console) operate(v *visit, route operations.Route) error {
	who, err := k.operating(v, route)
	if err != nil {
		return err
	}
	o := k.config.Operations.Visit(v.r, who.Principal, k.rights(who), v.Language)
	o.Fresh, o.Signs = k.fresh(v), k.passkeys != nil
	rights := o.Rights
	cookie := k.cookie(v.r, sessionCookie)
	o.Still = func() bool {
		again, err := k.operating(&visit{w: v.w, r: v.r, session: k.sessions.of(cookie)}, route)
		return err == nil && again.Principal == who.Principal && k.rights(again).Equal(rights)
	}
	if v.r.Method == http.MethodGet {
		waiting, err := k.waitingFor(v, who)
		if err != nil {
			return err
		}
		o.Waiting = len(waiting)
	}
	answer, err := route.Serve(o)
	switch {
	case err != nil:
		return err
	case answer.Redirect != "":
		return v.see(answer.Redirect)
	case answer.Write != nil:
		v.wrote = true
		return answer.Write(v.w)
	}
	return k.showAnswer(v, http.StatusOK, answer)
}

// change makes a change that the person's passkey has signed: the form, and nothing else.
// At a host that can have no passkeys, a fresh login has to do for what takes something away.
func (k *Console) change(v *visit, to route) error {
	who, err := to.may(v)
	if err != nil {
		return err
	}
	form, err := changeForm(v)
	switch {
	case err != nil:
		return err
	case k.passkeys != nil:
		_, err = k.signed(v, who, "change", form)
	case to.effect == operations.Gives:
		return agentauth.Errorf(agentauth.CodeUnauthorized, "this gives authority back and takes a passkey, which browsers do not make at a numeric address; open the console by a host name, or use the command line")
	case !k.fresh(v):
		return agentauth.Errorf(agentauth.CodeUnauthorized, "%s", v.T("your login is older than %s; log in again, and repeat the change", lasting(v.Language, k.config.Fresh)))
	}
	if err != nil {
		return err
	}
	return to.serve(v)
}

func (k *Console) changeChallenge(v *visit, to route) error {
	who, err := to.may(v)
	if err != nil {
		return err
	}
	form, err := changeForm(v)
	if err != nil {
		return err
	}
	return k.challenge(v, who, "change", form)
}

// changeForm is the digest of a change: its path, and every value of its form. The signature
// itself is left out.
func changeForm(v *visit) (string, error) {
	if err := v.r.ParseMultipartForm(formLimit); err != nil && v.r.PostForm == nil {
		return "", agentauth.Errorf(agentauth.CodeInvalidRequest, "the form cannot be read")
	}
	sum := sha256.New()
	part := func(text string) {
		one := sha256.Sum256([]byte(text))
		sum.Write(one[:])
	}
	part(strings.TrimSuffix(v.r.URL.EscapedPath(), "/challenge"))
	for _, name := range slices.Sorted(maps.Keys(v.r.PostForm)) {
		if name == "assertion" {
			continue
		}
		for _, value := range v.r.PostForm[name] {
			part(name)
			part(value)
		}
	}
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)), nil
}

// group is a part of the menu.
type group struct {
	Title string
	Links []operations.Link
}

// menu lists the pages that a person can see.
func (k *Console) menu(f *frame) []group {
	l := f.Language
	var out []group
	if len(f.Operate) > 0 {
		out = append(out, group{l.T("Operate"), f.Operate})
	}
	own := []operations.Link{{Path: "/approve", Text: l.T("Approvals")}, {Path: "/approved", Text: l.T("Approved")}, {Path: "/hosts", Text: l.T("My agents")}, {Path: "/activity", Text: l.T("Activity")}}
	if f.Directory {
		own = append(own, operations.Link{Path: "/registry", Text: l.T("Registry")})
	}
	out = append(out, group{l.T("Decide"), own})
	settings := []operations.Link{{Path: "/passkeys", Text: l.T("Passkeys")}, {Path: "/sessions", Text: l.T("Sessions")}}
	if f.Administrator {
		settings = append([]operations.Link{{Path: "/people", Text: l.T("People")}}, settings...)
	}
	return append(out, group{l.T("Settings"), settings})
}

// Current reports whether a link of the menu leads to the part of the shown page.
func (f frame) Current(path string) bool {
	if path == operations.Path || path == "/approve" {
		return f.Path == path || path == "/approve" && strings.HasPrefix(f.Path, "/approve/")
	}
	return f.Path == path || strings.HasPrefix(f.Path, path+"/")
}

// allTemplates are the templates of these pages and of those for operators.
func allTemplates() []fs.FS { return []fs.FS{files, operations.Templates()} }
