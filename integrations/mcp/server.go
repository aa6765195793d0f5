package powerboxmcp

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/holder/guard"
	"github.com/powerbox-project/powerbox/token"
)

// headerDecision ties a request to its decision, between handler and middleware.
// What comes in under this name from outside is taken away.
const headerDecision = "Powerbox-Decision"

const headerSession = "Mcp-Session-Id"

// Bounds on the memory of sessions.
const (
	maxSessions = 1 << 14
	sessionLife = 24 * time.Hour
)

// Config says which server it is.
type Config struct {
	// Gate is the local gate. Required.
	Gate *guard.Gate
	// Agent is the server's id there, an agent with protocol: local. Required.
	Agent string
	// Issuer is the agent's public URL at the gate, which issues its capabilities and
	// which proofs are for. Required.
	Issuer string
	// Resource is the URL at which clients reach this server (RFC 9728, resource).
	// Required.
	Resource string
	// Skills are the skills of the agent by tool, where they have other names than
	// the tools. Optional.
	Skills map[string]string
	// Methods are operations of the agent (grant/operation) that methods beside
	// tools/call need, each that of a skill: resources/read, resources/subscribe,
	// resources/unsubscribe, prompts/get, completion/complete. Their parameters are the
	// operation's arguments. One that is not here is refused, and nothing is listed for
	// it.
	Methods map[string]string
	// Requests are methods that the server may call at its clients:
	// sampling/createMessage, elicitation/create, roots/list, ping. Others are refused
	// in the client's place. None where empty.
	Requests []string
	// Streams is how long a client is told of events (GET, subscriptions/listen) before it
	// has to come again, with a capability that is valid then: the gate is not asked again
	// during a stream. A GET ends with an event without a message, by whose id its client
	// comes back. Optional: 0 is a minute.
	Streams time.Duration
	// UnsafeStreams has streams of events last for as long as the client stays, also when
	// its capability was taken back meanwhile.
	UnsafeStreams bool
	// Now is the clock. Required.
	Now func() time.Time
	// Log gets the refused requests. Optional: slog.Default.
	Log *slog.Logger
}

// Server holds an MCP server to capabilities.
type Server struct {
	config     Config
	operations map[string]powerbox.Operation // of Config.Methods

	mu       sync.Mutex
	admitted map[string]*admitted // by the key in headerDecision
	sessions map[string]session
}

// admitted is a request that the gate has allowed.
type admitted struct {
	message
	decision guard.Decision
	under    powerbox.Authority // of a list: what may be asked for
	told     bool               // the outcome is, or will be, told by the middleware
}

// needsOperation reports whether the request needs more than the right to talk to
// the server.
func (m message) needsOperation() bool { return m.tool != "" || m.rule != "" }

// session is to whom a session of the SDK was given.
type session struct {
	origin string
	until  time.Time
}

// New returns what holds a server to capabilities.
func New(c Config) (*Server, error) {
	for name, text := range map[string]string{"Issuer": c.Issuer, "Resource": c.Resource} {
		if u, err := url.Parse(text); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("powerbox: Config.%s is %q; want an http or https URL", name, text)
		}
	}
	if c.Gate == nil || c.Agent == "" || c.Now == nil {
		return nil, errors.New("powerbox: Config needs Gate, Agent and Now")
	}
	if c.Streams < 0 || c.UnsafeStreams && c.Streams > 0 {
		return nil, fmt.Errorf("powerbox: Config.Streams is %s; want a time, or 0, and none with Config.UnsafeStreams", c.Streams)
	}
	if c.Streams == 0 {
		c.Streams = streamLife
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	s := &Server{config: c, operations: map[string]powerbox.Operation{}, admitted: map[string]*admitted{}, sessions: map[string]session{}}
	for method, name := range c.Methods {
		if _, ok := ruled[method]; !ok || strings.Count(name, "/") != 1 {
			return nil, fmt.Errorf("powerbox: Config.Methods[%q] is %q; want one of %s, and a grant/operation of the agent", method, name, strings.Join(slices.Sorted(maps.Keys(ruled)), ", "))
		}
		op, err := powerbox.ParseOperation(c.Agent + "/" + name)
		if err != nil {
			return nil, fmt.Errorf("powerbox: Config.Methods[%q]: %w", method, err)
		}
		s.operations[method] = op
	}
	for _, method := range c.Requests {
		if !slices.Contains(ofServers, method) {
			return nil, fmt.Errorf("powerbox: Config.Requests has %q; want %s", method, strings.Join(ofServers, ", "))
		}
	}
	return s, nil
}

// ofServers are the methods that servers call at their clients.
var ofServers = []string{"elicitation/create", "ping", "roots/list", "sampling/createMessage"}

// Handler asks the gate about every request before next, the SDK's streamable
// handler, gets it. next gets the bytes as they came, without Powerbox's
// headers and without Authorization.
func (s *Server) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, "the body cannot be read, or has more than 4 MiB", http.StatusRequestEntityTooLarge)
			return
		}
		m := message{method: r.Method, arguments: powerbox.Object()}
		if r.Method == http.MethodPost {
			m, err = readMessage(body)
			if err == nil && m.answers && len(s.config.Requests) == 0 {
				err = errors.New("an answer to a request of the server, whose requests do not get through here")
			}
			if err != nil {
				s.wrong(w, m, err)
				return
			}
		}
		a, err := s.ask(r, m, body)
		if err != nil {
			s.refuse(w, r, m, err)
			return
		}
		d := a.decision
		if !s.owns(r.Header.Values(headerSession), d.Origin) {
			http.Error(w, "session not found", http.StatusNotFound)
			_ = s.config.Gate.Outcome(r.Context(), d, errForeign) // an outcome that is not reported is unknown, on record
			return
		}
		s.forward(w, r, next, a, body)
	})
}

var (
	errForeign = errors.New("the session is somebody else's")
	errFailed  = errors.New("the server answered with an error")
)

// ask asks the gate about a request.
func (s *Server) ask(r *http.Request, m message, body []byte) (*admitted, error) {
	a, attempt := &admitted{message: m}, s.attempt(r, m, body)
	var err error
	if slices.Contains([]string{listTools, listResources, listTemplates, listPrompts}, m.method) {
		a.under, a.decision, err = s.config.Gate.Under(r.Context(), attempt)
	} else {
		a.decision, err = s.config.Gate.Check(r.Context(), attempt)
	}
	return a, err
}

// skill is that of a tool.
func (s *Server) skill(tool string) string {
	if mapped, ok := s.config.Skills[tool]; ok {
		return mapped
	}
	return tool
}

// attempt is what a request tries, as in the gateway: a tool, or a method that
// is ruled, with its arguments, or the right to talk to the server.
func (s *Server) attempt(r *http.Request, m message, body []byte) guard.Attempt {
	a := guard.Attempt{To: s.config.Agent, Shown: &guard.Shown{
		Proof: r.Header.Get(holder.HeaderProof), Method: r.Method, URL: s.config.Issuer, Digest: token.DigestOf(body),
	}}
	if shown := strings.Join(r.Header.Values(holder.HeaderCapability), ","); shown != "" {
		a.Shown.Chain = token.SplitChain(shown)
	}
	switch {
	case m.tool != "":
		a.Skill = s.skill(m.tool)
	case m.rule != "":
		// Of one that is not named the gate knows no skill: it says so, on record.
		if a.Skill = s.config.Methods[m.rule]; a.Skill == "" {
			a.Skill = "the method " + m.rule
		}
	default:
		a.Skill = actionMessage
		return a
	}
	a.Arguments = m.arguments.AppendJSON(nil)
	return a
}

// actionMessage is the right to talk to the server.
const actionMessage = "a2a.message"

// forward passes an admitted request on, and has its session be the caller's.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, next http.Handler, a *admitted, body []byte) {
	key := rand.Text()
	s.mu.Lock()
	s.admitted[key] = a
	s.mu.Unlock()
	w, ctx, end := s.limited(w, r, a.method)
	defer end()
	out := r.Clone(ctx)
	if id := r.Header.Get(headerLastEvent); id != "" {
		out.Header.Set(headerLastEvent, serverEvent(id))
		if serverEvent(id) == "" {
			out.Header.Del(headerLastEvent)
		}
	}
	for name := range out.Header {
		if strings.HasPrefix(strings.ReplaceAll(strings.ToLower(name), "_", "-"), "powerbox-") {
			out.Header.Del(name)
		}
	}
	out.Header.Del("Authorization")
	out.Header.Set(headerDecision, key)
	out.Body = io.NopCloser(bytes.NewReader(body))
	answer := &answering{ResponseWriter: w, bind: func(id string) bool { return s.bind(id, a.decision.Origin) }}
	defer func() {
		s.mu.Lock()
		delete(s.admitted, key)
		told := a.told
		s.mu.Unlock()
		if told {
			return
		}
		failed := error(nil)
		if answer.status >= http.StatusBadRequest || a.needsOperation() {
			failed = errFailed // what the middleware never saw did not run
		}
		if err := s.config.Gate.Outcome(r.Context(), a.decision, failed); err != nil {
			s.config.Log.WarnContext(r.Context(), "the outcome of a request could not be told", "decision", a.decision.ID, "error", err)
		}
	}()
	next.ServeHTTP(answer, out)
}

// owns reports whether the session that a request names is the caller's. An
// unknown one, as after a restart, belongs to no caller.
func (s *Server) owns(ids []string, origin string) bool {
	if len(ids) == 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	of, known := s.sessions[ids[0]]
	return len(ids) == 1 && known && of.origin == origin && of.until.After(s.config.Now())
}

// bind gives a new session to whom it was begun by; false where it is someone
// else's, or there are too many.
func (s *Server) bind(id, origin string) bool {
	now := s.config.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if of, known := s.sessions[id]; known && of.until.After(now) {
		return of.origin == origin
	}
	if len(s.sessions) >= maxSessions {
		for id, of := range s.sessions {
			if !of.until.After(now) {
				delete(s.sessions, id)
			}
		}
	}
	if len(s.sessions) >= maxSessions {
		return false
	}
	s.sessions[id] = session{origin, now.Add(sessionLife)}
	return true
}

// answering notes the status of an answer, and has a session that it names bound
// before the caller knows of it.
type answering struct {
	http.ResponseWriter
	bind   func(id string) bool
	status int
}

// WriteHeader implements [http.ResponseWriter].
func (a *answering) WriteHeader(status int) {
	if id := a.Header().Get(headerSession); id != "" && a.status == 0 && !a.bind(id) {
		a.Header().Del(headerSession)
		status = http.StatusServiceUnavailable
	}
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (a *answering) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(b)
}

// Flush implements [http.Flusher], which the SDK asks for.
func (a *answering) Flush() {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	_ = http.NewResponseController(a.ResponseWriter).Flush() // what cannot be flushed comes later
}

// Unwrap lets [http.ResponseController] reach the wrapped writer.
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }
