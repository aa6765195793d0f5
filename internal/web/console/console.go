package console

import (
	"bytes"
	"crypto/cipher"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/missing"
	"github.com/powerbox-project/powerbox/internal/people"
	"github.com/powerbox-project/powerbox/internal/shed"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/web/operations"
	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// Config has the parts that a console needs. Every field is required unless it says
// otherwise.
type Config struct {
	Provider
	Desk      Desk       // requests and calls that wait for people; nil where none do
	Approvals Approvals  // those of the desk; nil where it is
	Directory *Directory // agents and their cards; nil where this server has none to show
	// Rights are what a person may do by roles; nil where there are none.
	Rights func(who people.Person) people.Rights
	// Operations are the pages for operators; nil for none.
	Operations *operations.Pages
	URL        string // the server's own, which decides origin, cookies and passkeys
	Name       string // whose pages they are, as people know it
	// Fresh is how long after a login someone can approve (AAP-A6).
	Fresh time.Duration
	// Session is how long a login lasts.
	Session time.Duration
	// Users are built-in users, who log in by choosing their name; nil outside of
	// experiments.
	Users []string
	// Groups are those of people who log in by another way than an OpenID provider,
	// by principal; nil for none.
	Groups map[string][]string
	// Login is the way through an OpenID provider; nil for none.
	Login *OpenID
	// First is the principal of the first administrator and the secret of the URL
	// at which the first passkey is registered; both "" for none.
	First, FirstSecret string
	// Seal seals logins that were begun. Every process that serves these pages has the
	// same, and it makes its own nonces.
	Seal cipher.AEAD
	// Limits bound the requests of those who log in.
	Limits Limits
	// Keeper keeps logins for every process that serves these pages; nil for one that
	// is alone and keeps them itself.
	Keeper Keeper
	Now    func() time.Time
	Random io.Reader
	Log    *slog.Logger
	Done   <-chan struct{} // ends the streams of live pages
}

// Console is an [http.Handler]. Its methods can be called by many goroutines.
type Console struct {
	config   Config
	secure   bool // served by https
	handler  http.Handler
	pages    map[string]func() (*template.Template, error) // by the tag of their language
	sessions *sessions
	passkeys *webauthn.WebAuthn // nil where the URL's host can have none
	streams  chan struct{}
	mu       sync.Mutex
	followed map[string]int // pages that are followed live, by person
	logins   logins
	begun    atomic.Bool // whether the first administrator has begun here
}

//go:embed pages assets
var files embed.FS

// maxStreams bounds the pages that are followed live at once.
const maxStreams = 256

// formLimit bounds the body of a post.
const formLimit = 256 << 10

// New returns a Console. Whatever is missing for security is an error.
func New(c Config) (*Console, error) {
	if err := missing.Fields("console", c, "Questions", "States", "Digests", "Offers", "Hosts", "Agents", "Activity", "Passkeys", "People", "Now", "Random", "Log", "Done", "Seal"); err != nil {
		return nil, err
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "":
		return nil, fmt.Errorf("console: URL %q is none", c.URL)
	case c.Fresh <= 0 || c.Session <= 0:
		return nil, errors.New("console: Fresh and Session must be positive")
	case (c.First == "") != (c.FirstSecret == ""):
		return nil, errors.New("console: First and FirstSecret come together")
	}
	k := &Console{config: c, secure: u.Scheme == "https", sessions: newSessions(c), logins: logins{limits: c.Limits}, streams: make(chan struct{}, maxStreams), followed: map[string]int{}}
	if k.passkeys, err = relyingParty(u, c.Name); err != nil {
		return nil, err
	}
	k.pages = k.templates()
	// Another site would gain most by posting an approval (ATK-47).
	guard := http.NewCrossOriginProtection()
	if err := guard.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.refuse(w, r, agentauth.Errorf(agentauth.CodeUnauthorized, "this came from another site; open the page itself"))
	}))
	routes, err := k.routes()
	if err != nil {
		return nil, err
	}
	k.handler = guard.Handler(routes)
	return k, nil
}

// Paths are the paths of the console.
func Paths() []string {
	return []string{
		"/{$}", "/approve", "/approve/", "GET /approved", "/login", "/login/", "POST /logout", "/passkeys", "/passkeys/", "/sessions", "/sessions/", "/first", "/hosts", "/hosts/", "/host-agents/", "GET /activity", "/people", "/people/", "GET /console/", "GET /language", "/registry", "/registry/", "GET /map", operations.Path, operations.Path + "/",
	}
}

// Pages are the paths that the console answers to GET, with those for operators.
func Pages() (out []string) {
	var patterns []string
	for _, one := range (&Console{}).peopleRoutes() {
		patterns = append(patterns, one.pattern)
	}
	for _, route := range (&operations.Pages{}).Routes() {
		patterns = append(patterns, route.Pattern)
	}
	for _, pattern := range patterns {
		if path, ok := strings.CutPrefix(pattern, "GET "); ok {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

// isDirectory reports whether a pattern is that of a page about agents and cards.
func isDirectory(pattern string) bool {
	return strings.Contains(pattern, " /registry") || strings.HasSuffix(pattern, " /map")
}

// ServeHTTP implements [http.Handler]. The header is on every answer, refusals
// among them.
func (k *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secured(w.Header())
	r.Body = http.MaxBytesReader(w, r.Body, formLimit)
	k.handler.ServeHTTP(w, r)
}

func secured(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'")
	h.Set("X-Frame-Options", "DENY")
	// With no-referrer, browsers have forms say that they come from nowhere.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// visit is one request, with the session that it came with.
type visit struct {
	w       http.ResponseWriter
	r       *http.Request
	session *session // nil for a visitor without one
	wrote   bool     // that the answer has begun
	*lang.Language
}

// see sends the browser to another page of ours.
func (v *visit) see(path string) error {
	v.wrote = true
	http.Redirect(v.w, v.r, path, http.StatusSeeOther)
	return nil
}

// errLogin sends the browser to the login, and then back.
var errLogin = errors.New("console: not logged in")

// serve is the one funnel of pages.
func (k *Console) serve(w http.ResponseWriter, r *http.Request, page func(*visit) error) {
	v := &visit{w: w, r: r, session: k.sessions.of(k.cookie(r, sessionCookie)), Language: k.language(r)}
	err := page(v)
	switch {
	case err == nil:
	case errors.Is(err, errLogin) && strings.HasSuffix(r.URL.Path, "/challenge"):
		k.refuse(w, r, agentauth.Errorf(agentauth.CodeUnauthenticated, "log in first"))
	case errors.Is(err, errLogin):
		next := r.URL.RequestURI()
		if r.Method != http.MethodGet {
			next = r.URL.Path
		}
		http.Redirect(w, r, "/login?next="+url.QueryEscape(next), http.StatusSeeOther)
	case v.wrote:
		k.config.Log.ErrorContext(r.Context(), "a page broke off", slog.String("path", r.URL.Path), slog.Any("error", err))
	default:
		k.refuse(w, r, err)
	}
}

// refuse answers with a page that explains the error, or for a script with a text.
func (k *Console) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var e *agentauth.Error
	var no *operations.Refused
	switch {
	case errors.As(err, &no):
		e = refusal(no)
	case errors.As(err, &e):
	case errors.Is(err, evidence.ErrUnavailable):
		shed.LogLate(k.config.Log, r)
		e = agentauth.Errorf(agentauth.CodeUnavailable, "%s", shed.LateMessage(r.Method))
		e.RetryAfter = 1
	default:
		k.config.Log.ErrorContext(r.Context(), "a page failed", slog.String("path", r.URL.Path), slog.Any("error", err))
		e = agentauth.Errorf(agentauth.CodeInternal, "the page failed; the server's log says why")
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	v := &visit{w: w, r: r, session: k.sessions.of(k.cookie(r, sessionCookie)), Language: k.language(r)}
	if strings.HasSuffix(r.URL.Path, "/challenge") {
		http.Error(w, v.T(e.Message), e.Status())
		return
	}
	if err := k.showStatus(v, e.Status(), "problem", problem{Title: v.T(http.StatusText(e.Status())), Message: v.Said(e.Message), Back: r.URL.Path}); err != nil {
		k.config.Log.ErrorContext(r.Context(), "a page failed", slog.String("path", r.URL.Path), slog.Any("error", err))
	}
}

type problem struct{ Title, Message, Back string }

// titles are those of [http.StatusText] that pages have.
var _ = []string{
	lang.Mark("Bad Request"), lang.Mark("Unauthorized"), lang.Mark("Forbidden"), lang.Mark("Not Found"), lang.Mark("Conflict"), lang.Mark("Gone"), lang.Mark("Too Many Requests"),
	lang.Mark("Internal Server Error"), lang.Mark("Service Unavailable"),
}

// refusal is a refusal of the operators' interface as a page words one.
func refusal(no *operations.Refused) *agentauth.Error {
	code := agentauth.CodeInvalidRequest
	switch {
	case no.Status == http.StatusNotFound:
		code = agentauth.CodeNotFound
	case no.Status == http.StatusForbidden:
		code = agentauth.CodeUnauthorized
	case no.Status == http.StatusServiceUnavailable:
		code = agentauth.CodeUnavailable
	case no.Status >= http.StatusInternalServerError:
		code = agentauth.CodeInternal
	}
	e := agentauth.Errorf(code, "%s", no.Message)
	if code == agentauth.CodeUnavailable {
		e.RetryAfter = 1
	}
	return e
}

// frame has the parts around every page.
type frame struct {
	Page, Name, Who, Path string
	Title                 string // of a page that has no title of its own in the frame
	Script                string // of the page, "" for none
	Menu                  []group
	Wide                  bool // a page with tables
	Dev                   bool
	Directory             bool
	Operate               []operations.Link // the pages for operators that a role permits
	Administrator         bool
	Language              *lang.Language
	Again                 string // the page in another language, as an argument
	Body                  any
}

func (k *Console) show(v *visit, page string, body any) error {
	return k.showStatus(v, http.StatusOK, page, body)
}

// begin sends people to the first page for operators that a role permits, and everyone
// else to the requests.
func (k *Console) begin(v *visit) error {
	if who, err := k.person(v); err == nil {
		if links := k.permitted(v, who); len(links) > 0 {
			return v.see(links[0].Path)
		}
	}
	return v.see("/approve")
}

// permitted are the pages for operators that a person's roles permit.
func (k *Console) permitted(v *visit, who provider.Person) []operations.Link {
	if k.config.Operations == nil {
		return nil
	}
	return operations.Links(k.rights(who), v.Language)
}

func (k *Console) showStatus(v *visit, status int, page string, body any) error {
	return k.showAnswer(v, status, operations.Answer{Page: page, Body: body})
}

// showAnswer shows a page in its frame. Pages for operators have a title of their own, and
// tables.
func (k *Console) showAnswer(v *visit, status int, a operations.Answer) error {
	page, body := a.Page, a.Body
	f := frame{Title: a.Title, Script: a.Script, Wide: a.Title != "" || page == "activity", Page: page, Name: k.config.Name, Dev: k.config.Users != nil, Path: v.r.URL.Path, Language: v.Language, Again: again(v.r), Body: body}
	if v.session != nil {
		f.Who = v.session.principal
	}
	if who, err := k.person(v); err == nil { // else the page is about that, and has no menu
		f.Administrator = k.config.People.Administrator(who)
		f.Directory, f.Operate = k.config.Directory != nil, k.permitted(v, who)
		f.Menu = k.menu(&f)
	}
	pages, err := k.pages[v.Tag]()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, page+".html", f); err != nil {
		return fmt.Errorf("console: page %s: %w", page, err)
	}
	v.wrote = true
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.Header().Set("Content-Language", v.Tag)
	v.w.WriteHeader(status)
	_, err = v.w.Write(b.Bytes())
	return err
}

func (k *Console) asset(v *visit) error {
	name := v.r.PathValue("file")
	if tag, ok := strings.CutPrefix(name, "texts."); ok {
		return k.texts(v, strings.TrimSuffix(tag, ".js"))
	}
	data, err := files.ReadFile("assets/" + name)
	if err != nil {
		return agentauth.Errorf(agentauth.CodeNotFound, "there is no such file")
	}
	kind := "text/css; charset=utf-8"
	if strings.HasSuffix(name, ".js") {
		kind = "text/javascript; charset=utf-8"
	}
	if strings.HasSuffix(name, ".svg") {
		kind = "image/svg+xml"
	}
	v.w.Header().Set("Content-Type", kind)
	_, err = v.w.Write(data)
	return err
}
