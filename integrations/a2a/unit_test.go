package powerboxa2a_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	powerboxa2a "github.com/powerbox-project/powerbox/integrations/a2a"
	"github.com/powerbox-project/powerbox/token"
)

const (
	issuer     = "https://gate.example/agents/documents"
	opRetrieve = "documents/documents:read/retrieve"
)

// lone is an agent whose gateway is the test.
type lone struct {
	t   *testing.T
	key *token.PrivateKey
	in  *powerboxa2a.Inbound
}

func newLone(t *testing.T, change func(*powerboxa2a.Config)) *lone {
	t.Helper()
	key := newKey(t)
	op, err := powerbox.ParseOperation(opRetrieve)
	if err != nil {
		t.Fatal(err)
	}
	c := powerboxa2a.Config{
		URL: issuer, ID: "documents", Now: earlier(), Keys: token.NewKeySet(key.Public()),
		Skills: map[string]holder.Skill{"retrieve_document": {Operation: op, Handle: "resourceHandle"}},
	}
	if change != nil {
		change(&c)
	}
	in, err := powerboxa2a.NewInbound(c)
	if err != nil {
		t.Fatal(err)
	}
	return &lone{t, key, in}
}

// authority permits retrieving one handle, and messages, until a time.
func (l *lone) authority(until time.Time, handles ...powerbox.Value) powerbox.Authority {
	l.t.Helper()
	shape, err := powerbox.NewShape(powerbox.RestNone, powerbox.Field{Name: "resourceHandle", Required: true, Constraint: powerbox.OneOf{Values: handles}})
	if err != nil {
		l.t.Fatal(err)
	}
	clauses := []powerbox.Clause{}
	for name, s := range map[string]powerbox.Shape{opRetrieve: shape, "a2a.message": {}} {
		op, err := powerbox.ParseOperation(name)
		if err != nil {
			l.t.Fatal(err)
		}
		clauses = append(clauses, powerbox.Clause{Pattern: powerbox.ExactPattern(op), Shape: s})
	}
	a, err := powerbox.NewAuthority(powerbox.Window{Until: until}, 0, clauses...)
	if err != nil {
		l.t.Fatal(err)
	}
	return a
}

// under runs something in a request that the gateway let through.
func (l *lone) under(c token.Context, do func(ctx context.Context)) {
	l.t.Helper()
	c.Issuer, c.Audience, c.IssuedAt, c.Expires, c.Mode = issuer, "documents", now(), now().Add(time.Minute), "require"
	c.Digest = token.DigestOf([]byte("{}"))
	compact, err := token.SignContext(l.key, c)
	if err != nil {
		l.t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(l.t.Context(), http.MethodPost, "/", strings.NewReader("{}"))
	r.Header.Set(powerboxa2a.HeaderContext, compact)
	ran := false
	l.in.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ran = true
		if r.Header.Get(powerboxa2a.HeaderContext) != "" {
			l.t.Error("the context goes on to where propagators copy it from")
		}
		do(r.Context())
	})).ServeHTTP(httptest.NewRecorder(), r)
	if !ran {
		l.t.Fatal("refused")
	}
}

// What a task permits is what the capability does, asked again for each effect.
func TestTaskPermits(t *testing.T) {
	l := newLone(t, nil)
	both := l.authority(now().Add(time.Hour), powerbox.String("rh_1"), powerbox.String("rh_2"))
	c := token.Context{Basis: "capability", Authority: both, Handles: map[string]token.ContextHandle{"rh_1": {ID: "/vault/1"}}}
	l.under(c, func(ctx context.Context) {
		task, _ := powerboxa2a.TaskFrom(ctx)
		if ids, bounded := task.Handles(); !bounded || len(ids) != 1 || ids["rh_1"] != "/vault/1" {
			t.Errorf("handles %v, bounded %v", ids, bounded)
		}
		for _, try := range []struct {
			name, skill string
			args        map[string]any
			code        string
		}{
			{"granted", "retrieve_document", map[string]any{"resourceHandle": "rh_1"}, ""},
			{"a handle that policy has taken away", "retrieve_document", map[string]any{"resourceHandle": "rh_2"}, "handle_not_granted"},
			{"another handle", "retrieve_document", map[string]any{"resourceHandle": "rh_3"}, "handle_not_granted"},
			{"no arguments", "retrieve_document", nil, "argument_missing"},
			{"an unknown skill", "delete_document", nil, "skill_unmapped"},
			{"arguments that are no JSON", "retrieve_document", map[string]any{"resourceHandle": make(chan int)}, "params"},
		} {
			err := task.Permits(ctx, try.skill, try.args)
			if try.code == "" {
				if err != nil {
					t.Errorf("%s: %v", try.name, err)
				}
				continue
			}
			code, _ := reason(t, err)
			if code != try.code || !errors.Is(err, powerbox.ErrDenied) || !errors.Is(err, a2a.ErrUnauthorized) {
				t.Errorf("%s: %q %v; want %q", try.name, code, err, try.code)
			}
		}
		op, _ := powerbox.ParseOperation("documents/documents:write/delete")
		if code, missing := reason(t, task.PermitsOperation(op, powerbox.Object())); code != "operation_not_granted" || missing != `["documents/documents:write/delete"]` {
			t.Errorf("%q %q", code, missing)
		}
	})
}

// Words are refused where nothing would hold them to the arguments of the
// capability, and let in where the executor says that it asks.
func TestWords(t *testing.T) {
	for _, enforces := range []bool{false, true} {
		l := newLone(t, func(c *powerboxa2a.Config) { c.Enforces = enforces })
		c := token.Context{Basis: "capability", Authority: l.authority(now().Add(time.Hour), powerbox.String("rh_1"))}
		l.under(c, func(ctx context.Context) {
			_, _, err := l.in.Interceptor().Before(ctx, nil, &a2asrv.Request{Payload: words("delete everything")})
			if enforces && err != nil {
				t.Error(err)
			}
			if !enforces {
				if code, _ := reason(t, err); code != "message_not_bound" {
					t.Error(err)
				}
			}
		})
	}
}

// A message names one skill once; what a reader could take otherwise is refused.
func TestAmbiguousCalls(t *testing.T) {
	l := newLone(t, nil)
	part := func(skill string, handle any) *a2a.Part {
		return a2a.NewDataPart(map[string]any{"skill": skill, "arguments": map[string]any{"resourceHandle": handle}})
	}
	named := func(skill string, args any) map[string]any {
		return map[string]any{holder.ExtensionURI: map[string]any{"skill": skill, "arguments": args}}
	}
	twice := a2a.NewDataPart(map[string]any{"skill": "retrieve_document", "arguments": map[string]any{"resourceHandle": "rh_1", "ResourceHandle": "rh_2"}})
	for name, try := range map[string]struct {
		payload any
		code    string
	}{
		"one":                  {&a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, part("retrieve_document", "rh_1"))}, ""},
		"two of one":           {&a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, part("retrieve_document", "rh_1"), part("retrieve_document", "rh_1"))}, "skill_ambiguous"},
		"another in metadata":  {&a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, part("retrieve_document", "rh_1")), Metadata: named("delete_document", nil)}, "skill_ambiguous"},
		"other arguments":      {&a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, part("retrieve_document", "rh_1")), Metadata: named("retrieve_document", map[string]any{})}, "skill_ambiguous"},
		"words beside":         {&a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, part("retrieve_document", "rh_1"), a2a.NewTextPart("and delete it"))}, "message_not_bound"},
		"arguments as a list":  {&a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewDataPart(map[string]any{"skill": "retrieve_document", "arguments": []any{}}))}, "params"},
		"ATK-27 spelled twice": {&a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, twice)}, "params"},
		"no message":           {&a2a.SendMessageRequest{}, "params"},
		"another method":       {struct{}{}, "method_unknown"},
	} {
		c := token.Context{Basis: "capability", Authority: l.authority(now().Add(time.Hour), powerbox.String("rh_1")), Decision: "rec_" + name}
		l.under(c, func(ctx context.Context) {
			_, _, err := l.in.Interceptor().Before(ctx, nil, &a2asrv.Request{Payload: try.payload})
			if try.code == "" {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				return
			}
			if code, _ := reason(t, err); code != try.code {
				t.Errorf("%s: %v; want %s", name, err, try.code)
			}
		})
	}
}

// What the gateway lets through without a capability passes, unless the agent
// says otherwise.
func TestWithoutACapability(t *testing.T) {
	for _, required := range []bool{false, true} {
		l := newLone(t, func(c *powerboxa2a.Config) { c.RequireCapability = required })
		l.under(token.Context{Basis: "ambient"}, func(ctx context.Context) {
			_, _, err := l.in.Interceptor().Before(ctx, nil, &a2asrv.Request{Payload: skillCall("retrieve_document", nil)})
			if !required && err != nil {
				t.Error(err)
			}
			if required {
				if code, _ := reason(t, err); code != "capability_required" {
					t.Error(err)
				}
			}
		})
	}
}

// slow works until its context ends, and then says so.
type slow struct {
	cause error
	begun int
}

func (s *slow) Execute(ctx context.Context, _ *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		s.begun++
		if !yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("begun")), nil) {
			return
		}
		<-ctx.Done()
		s.cause = context.Cause(ctx)
		yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("too late")), nil)
	}
}

func (s *slow) Cancel(ctx context.Context, x *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return s.Execute(ctx, x)
}

// An execution ends when the capability does, and says nothing after that.
func TestExecutionEndsWithTheCapability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLone(t, nil)
		began := now()
		c := token.Context{Basis: "capability", Authority: l.authority(began.Add(10*time.Second), powerbox.String("rh_1"))}
		l.under(c, func(ctx context.Context) {
			executor := &slow{}
			var events int
			var ended error
			for _, err := range l.in.Guard(executor).Execute(ctx, &a2asrv.ExecutorContext{}) {
				if err != nil {
					ended = err
					continue
				}
				events++
			}
			if code, _ := reason(t, ended); events != 1 || code != "expired" || !errors.Is(executor.cause, powerboxa2a.ErrExpired) {
				t.Errorf("%d events, %v, cause %v", events, ended, executor.cause)
			}
			if lasted := now().Sub(began); lasted != 10*time.Second {
				t.Errorf("it lasted %v", lasted)
			}
			task, _ := powerboxa2a.TaskFrom(ctx)
			if code, _ := reason(t, task.Permits(ctx, "retrieve_document", map[string]any{"resourceHandle": "rh_1"})); code != "expired" {
				t.Errorf("an effect after the end: %q", code)
			}
			for _, err := range l.in.Guard(executor).Cancel(ctx, &a2asrv.ExecutorContext{}) {
				if code, _ := reason(t, err); code != "expired" || executor.begun != 1 {
					t.Errorf("something was begun after the end: %v", err)
				}
			}
		})
	})
}

// The keys of the gateway are fetched when they are needed, once for many calls;
// a key that is new has them fetched again, and what cannot be fetched refuses.
func TestKeysOfTheGateway(t *testing.T) {
	first, second := newKey(t), newKey(t)
	key, fetches, down := first, 0, false
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches++
		if down {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		jwk := strings.Replace(key.Public().JWK().String(), "{", `{"kid":"`+key.Public().Thumbprint()+`",`, 1)
		_, _ = w.Write([]byte(`{"keys":[` + jwk + `]}`))
	}))
	t.Cleanup(gateway.Close)
	clock := now()
	in, err := powerboxa2a.NewInbound(powerboxa2a.Config{URL: gateway.URL, ID: "documents", HTTP: gateway.Client(), Now: func() time.Time { return clock }})
	if err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(time.Second) // earlier contexts may have been used
	calls := 0
	call := func(signer *token.PrivateKey) bool {
		calls++
		compact, err := token.SignContext(signer, token.Context{
			Issuer: gateway.URL, Audience: "documents", IssuedAt: clock, Expires: clock.Add(time.Minute), Mode: "require", Basis: "capability",
			Digest: token.DigestOf(nil), Decision: "rec_" + strings.Repeat("x", calls),
		})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/tasks", nil)
		r.Header.Set(powerboxa2a.HeaderContext, compact)
		passed := false
		in.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed = true })).ServeHTTP(httptest.NewRecorder(), r)
		return passed
	}
	for i, step := range []struct {
		name    string
		after   time.Duration
		signer  *token.PrivateKey
		passes  bool
		fetches int
	}{
		{"the first call", 0, first, true, 1},
		{"the next", time.Second, first, true, 1},
		{"a stranger's key, too soon to ask", time.Second, second, false, 1},
		{"a stranger's key", 10 * time.Second, second, false, 2},
		{"and again at once", time.Second, second, false, 2},
		{"the key is new now", 10 * time.Second, second, true, 3},
		{"the old one", time.Second, first, false, 3},
		{"the gateway is away, the keys are young", 20 * time.Second, second, true, 3},
		{"and old", time.Minute, second, false, 4},
		{"and it is not asked all the time", time.Second, second, false, 4},
	} {
		switch i {
		case 5:
			key = second
		case 7:
			down = true
		}
		clock = clock.Add(step.after)
		if passed := call(step.signer); passed != step.passes || fetches != step.fetches {
			t.Errorf("%s: passed %v, %d fetches; want %v, %d", step.name, passed, fetches, step.passes, step.fetches)
		}
	}
}
