package console

import (
	"encoding/base64"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/web/operations"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// languageCookie keeps the language that a reader chose, languageTime is for how long.
const (
	languageCookie = "powerbox-language"
	languageTime   = 365 * 24 * time.Hour
)

// templates are the pages of every language, by its tag. Those of a language are parsed when
// the first of them is shown, because parsing takes longer than the rest of the console's start.
func (k *Console) templates() map[string]func() (*template.Template, error) {
	all := map[string]func() (*template.Template, error){}
	for _, l := range lang.All() {
		all[l.Tag] = sync.OnceValues(func() (*template.Template, error) { return k.templatesIn(l) })
	}
	return all
}

// templatesIn parses the pages in a language.
func (k *Console) templatesIn(l *lang.Language) (*template.Template, error) {
	pages := template.New("").Funcs(k.functions(l)).Funcs(operations.Functions(l))
	for _, from := range allTemplates() {
		names, err := fs.Glob(from, "pages/*.html")
		if err != nil {
			return nil, fmt.Errorf("console: %w", err)
		}
		for _, name := range names {
			source, err := fs.ReadFile(from, name)
			if err != nil {
				return nil, fmt.Errorf("console: %w", err)
			}
			if _, err := pages.New(name[len("pages/"):]).Parse(l.Template(string(source))); err != nil {
				return nil, fmt.Errorf("console: page %s in %s: %w", name, l.Tag, err)
			}
		}
	}
	return pages, nil
}

// functions are those that the templates of this package use.
func (k *Console) functions(l *lang.Language) template.FuncMap {
	return template.FuncMap{
		"b64": base64.RawURLEncoding.EncodeToString, "visible": visible, "words": words, "languages": lang.All, "list": func(all ...any) []any { return all },
		"passkeys": func(n int) string { return l.N(n, "%s passkey", "%s passkeys") },
		"sessions": func(n int) string { return l.N(n, "%s open session", "%s open sessions") },
		"hosts":    func(n int) string { return l.N(n, "%s host", "%s hosts") },
		"state":    func(state any) string { return stateSays(l, fmt.Sprint(state)) },
	}
}

// states are those of hosts, agents, grants and people.
var states = []string{
	lang.Mark("pending"), lang.Mark("active"), lang.Mark("expired"), lang.Mark("revoked"), lang.Mark("rejected"), lang.Mark("claimed"), lang.Mark("denied"), lang.Mark("frozen"), lang.Mark("removed"),
}

// stateSays words a state.
func stateSays(l *lang.Language, state string) string {
	if slices.Contains(states, state) {
		return l.T(state)
	}
	return state
}

// language is the one of a reader.
func (k *Console) language(r *http.Request) *lang.Language {
	return lang.Choose(k.cookie(r, languageCookie), r.Header.Get("Accept-Language"))
}

// again is where a reader comes back to after choosing another language. A posted form is
// not sent again.
func again(r *http.Request) string {
	if r.Method == http.MethodGet {
		return r.URL.RequestURI()
	}
	return r.URL.Path
}

// setLanguage keeps the language that a reader chose in a cookie.
func (k *Console) setLanguage(v *visit) error {
	l, ok := lang.Named(v.r.URL.Query().Get("to"))
	if !ok {
		return agentauth.Errorf(agentauth.CodeInvalidRequest, "to is one of en and de")
	}
	k.setCookie(v.w, languageCookie, l.Tag, languageTime)
	return v.see(ours(v.r.URL.Query().Get("back")))
}

// languageOf is the language of the page that a form was on, "" for one that names no known language.
func languageOf(form url.Values) string {
	if l, ok := lang.Named(form.Get("language")); ok {
		return l.Tag
	}
	return ""
}

// texts serves the texts of scripts in a language.
func (k *Console) texts(v *visit, tag string) error {
	l, ok := lang.Named(tag)
	if !ok {
		return agentauth.Errorf(agentauth.CodeNotFound, "there is no such file")
	}
	script, err := l.Scripts()
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	_, err = v.w.Write(script)
	return err
}
