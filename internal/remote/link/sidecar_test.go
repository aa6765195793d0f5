package link

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/wire/signed"
)

var noon = time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)

func key(t *testing.T, b byte) signed.Key {
	t.Helper()
	k, err := signed.NewKey(bytes.Repeat([]byte{b}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// answers is a server that answers by path, and counts.
type answers struct {
	mu    sync.Mutex
	by    map[string]any
	asked map[string]int
	down  bool
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[r.URL.Path]++
	if a.down {
		return nil, errors.New("the server is gone")
	}
	body, err := json.Marshal(a.by[r.URL.Path])
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)), Header: http.Header{}}, err
}

func newRemote(t *testing.T) (*Remote, *answers) {
	t.Helper()
	a := &answers{by: map[string]any{}, asked: map[string]int{}}
	return &Remote{
		Client: &Client{Server: "https://powerbox.example", Key: key(t, 1), Transport: a, Now: func() time.Time { return noon }},
		Agent:  "documents", Log: slog.New(slog.DiscardHandler),
	}, a
}

// The owner of a task that is known stays known, without the server; for an
// unknown one the sidecar asks the server every time, and fails if the server
// cannot be reached.
func TestATK18_OwnersAreKeptWhereThatIsSafe(t *testing.T) {
	r, a := newRemote(t)
	alice := Owner{Root: "cap_1", Principal: "pw_a", Holder: "key:a"}
	for range 2 {
		if _, known, err := r.Owner(t.Context(), "documents", "", "task-1"); known || err != nil {
			t.Errorf("unknown: %t %v", known, err)
		}
	}
	if a.asked[PathTasks] != 2 {
		t.Errorf("asked %d times for what is not known", a.asked[PathTasks])
	}
	a.by[PathTasks] = TaskAnswer{Known: true, Owner: alice}
	if first, err := r.Bind(t.Context(), "documents", "", "task-1", Owner{Principal: "pw_eve"}); err != nil || first != alice {
		t.Errorf("the first owner is %+v, %v", first, err)
	}
	a.down = true
	if o, known, err := r.Owner(t.Context(), "documents", "", "task-1"); o != alice || !known || err != nil {
		t.Errorf("what is known: %+v %t %v", o, known, err)
	}
	if first, err := r.Bind(t.Context(), "documents", "", "task-1", Owner{Principal: "pw_eve"}); err != nil || first != alice {
		t.Errorf("bound again: %+v %v", first, err)
	}
	if _, _, err := r.Owner(t.Context(), "documents", "", "task-2"); err == nil {
		t.Error("without the server it is known whose task-2 is")
	}
	if _, err := r.Bind(t.Context(), "documents", "", "task-2", alice); err == nil {
		t.Error("without the server a task is bound")
	}
}

// owned is a server that keeps owners by tenant and task, and answers no other version
// of what gateways say.
type owned struct {
	scheme string
	by     map[[2]string]Owner
}

func (o owned) RoundTrip(r *http.Request) (*http.Response, error) {
	var q TaskQuery
	if !strings.HasPrefix(r.Header.Get(HeaderGateway), o.scheme) {
		return &http.Response{StatusCode: http.StatusUnauthorized, Body: io.NopCloser(strings.NewReader("{}"))}, nil
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, err
	}
	key := [2]string{q.Tenant, q.Task}
	if _, known := o.by[key]; !known && q.Do == "bind" {
		o.by[key] = q.Owner
	}
	a := TaskAnswer{Owner: o.by[key]}
	_, a.Known = o.by[key]
	body, err := json.Marshal(a)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body))}, err
}

// One id in two tenants is two tasks, also where the owner of one is kept here. A server
// that knows no tenants would take one for the other: it is told nothing.
func TestATK18_OwnersInTenants(t *testing.T) {
	r, _ := newRemote(t)
	alice, bob := Owner{Principal: "pw_a", Holder: "key:a"}, Owner{Principal: "pw_b", Holder: "key:b"}
	r.Client.Transport = owned{Scheme, map[[2]string]Owner{}}
	for range 2 {
		for tenant, want := range map[string]Owner{"t1": alice, "t2": bob} {
			if first, err := r.Bind(t.Context(), "documents", tenant, "1", want); err != nil || first != want {
				t.Errorf("ATK-18 in %s the first is %+v, %v", tenant, first, err)
			}
			if o, known, err := r.Owner(t.Context(), "documents", tenant, "1"); err != nil || !known || o != want {
				t.Errorf("ATK-18 in %s: %+v %t %v", tenant, o, known, err)
			}
		}
		if _, known, err := r.Owner(t.Context(), "documents", "", "1"); known || err != nil {
			t.Errorf("ATK-18 without a tenant: %t %v", known, err)
		}
	}
	older, _ := newRemote(t)
	by := map[[2]string]Owner{{"", "1"}: alice}
	older.Client.Transport = owned{OldScheme, by}
	if o, known, err := older.Owner(t.Context(), "documents", "t2", "1"); err == nil {
		t.Errorf("ATK-18 of an older server: %+v %t", o, known)
	}
	if first, err := older.Bind(t.Context(), "documents", "t2", "2", bob); err == nil || len(by) != 1 {
		t.Errorf("ATK-18 at an older server: %+v %v", first, by)
	}
}

// A capability on record is cached, others are refused, and an unreachable server is an
// error.
func TestATK26_CapabilitiesOnRecord(t *testing.T) {
	r, a := newRemote(t)
	call := &gate.Call{Caller: gate.Caller{Holder: "key:a"}}
	resolve := func(id string) error {
		_, err := References{r}.Resolve(t.Context(), call, gate.Presented{Reference: id}, noon)
		return err
	}
	var refusal *gate.Refusal
	if err := resolve("cap_1"); !errors.As(err, &refusal) {
		t.Errorf("not on record: %v", err)
	}
	a.by[PathCapability] = Capability{ID: "cap_1", Holder: "key:a", Authority: json.RawMessage(`{}`), Handles: []string{"rh_1"}}
	if err := resolve("cap_2"); err == nil || errors.As(err, &refusal) {
		t.Errorf("an answer about another one: %v", err)
	}
	if handles, err := (Resources{Remote: r}).Held(t.Context(), "cap_1"); err != nil || len(handles) != 1 {
		t.Errorf("handles: %v %v", handles, err)
	}
	asked := a.asked[PathCapability]
	call.Caller.Holder = "key:b"
	if err := resolve("cap_1"); !errors.As(err, &refusal) || a.asked[PathCapability] != asked {
		t.Errorf("another holder's: %v, asked %d times more", err, a.asked[PathCapability]-asked)
	}
	a.down = true
	if _, err := (Resources{Remote: r}).Held(t.Context(), "cap_1"); err != nil {
		t.Errorf("what is known: %v", err)
	}
	if err := resolve("cap_3"); err == nil || errors.As(err, &refusal) {
		t.Errorf("what cannot be asked: %v", err)
	}
	if why := r.Veto(t.Context(), &gate.Call{}, gate.Held{OnRecord: "cap_3"}); why == "" {
		t.Error("what cannot be asked is not vetoed")
	}
	a.down = false
	asked = a.asked[PathCapability]
	r.SetStatus(Status{PolicyDigest: "changed"})
	if _, err := (Resources{Remote: r}).Held(t.Context(), "cap_1"); err != nil || a.asked[PathCapability] != asked+1 {
		t.Errorf("with other policies nothing is asked again: %v", err)
	}
	a.down = true
	if why := r.Veto(t.Context(), &gate.Call{}, gate.Held{OnRecord: "cap_1"}); why == "" {
		t.Error("policies that changed and cannot be asked do not veto")
	}
}

// inner admits alice.
type inner struct{}

func (inner) Authenticate(*http.Request, string, time.Time) (identity.Caller, bool, error) {
	return identity.Caller{Principal: "user:alice"}, true, nil
}

// A user without a known pseudonym is not accepted: a freeze could not be seen.
func TestATK24_UsersWithoutPseudonym(t *testing.T) {
	r, a := newRemote(t)
	auth := Authenticator{r, inner{}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://gw.example", nil)
	if err != nil {
		t.Fatal(err)
	}
	a.down = true
	if c, _, err := auth.Authenticate(request, "", noon); err == nil || c.Principal != "" {
		t.Errorf("without the server: %+v %v", c, err)
	}
	a.down = false
	a.by[PathPseudonym] = PseudonymQuery{}
	if _, _, err := auth.Authenticate(request, "", noon); err == nil {
		t.Error("with an empty pseudonym")
	}
	if r.Pseudonym("", "user:alice") != untoldPrincipal || r.Pseudonym("", "") != "" {
		t.Error("an unknown user has a pseudonym")
	}
	a.by[PathPseudonym] = PseudonymQuery{Name: "pw_a"}
	for range 2 {
		if c, _, err := auth.Authenticate(request, "", noon); err != nil || c.Principal != "user:alice" {
			t.Errorf("%+v %v", c, err)
		}
		a.down = true
	}
	if r.Pseudonym("documents", "user:alice") != "pw_a" {
		t.Error("the pseudonym is not kept")
	}
}

// A proof serves once here and once at all gateways; without the server only
// what reads continues.
func TestATK20_ProofsAreSharedByGateways(t *testing.T) {
	r, a := newRemote(t)
	replay := Replay{Remote: r, Own: gate.NewMemory(10)}
	at := func(reads bool, id string, now time.Time) string {
		fresh, err := replay.UseFor(gate.ProofUse{Reads: reads}, id, noon.Add(time.Minute), now)
		return fmt.Sprint(fresh, err != nil)
	}
	use := func(reads bool, id string) bool { return at(reads, id, noon) == "true false" }
	a.by[PathProof] = ProofAnswer{Fresh: true}
	if !use(false, "1") || use(true, "1") {
		t.Error("ATK-20 once here")
	}
	a.by[PathProof] = ProofAnswer{}
	if use(true, "2") {
		t.Error("ATK-20 used elsewhere")
	}
	sessions := Replay{Remote: r, Sessions: true}
	if fresh, err := sessions.UseFor(gate.ProofUse{}, "key:x 1", noon.Add(time.Minute), noon); fresh || err != nil {
		t.Error("ATK-20 a caller's proof that was used elsewhere")
	}
	a.down = true
	if !use(true, "3") || use(true, "3") || at(false, "4", noon) != "false true" || replay.Use("5", noon.Add(time.Minute), noon) {
		t.Error("ATK-20 without the server")
	}
	// It is back, and knows that these were used elsewhere.
	a.down = false
	if !use(true, "6") || use(false, "7") || at(true, "8", noon.Add(silence)) != "false false" {
		t.Error("ATK-20 reads alone do not ask again, and for a moment only")
	}
}

// The server's key is that of the token, and its answers are about this gateway,
// now.
func TestATK36_TheServerIsPinned(t *testing.T) {
	own, server, other := key(t, 1), key(t, 2), key(t, 3)
	sign := func(k signed.Key, typ string, v any) string {
		t.Helper()
		compact, err := k.Sign(typ, v)
		if err != nil {
			t.Fatal(err)
		}
		return compact
	}
	good := Enrolled{Server: "https://powerbox.example", Gateway: "gw_1", Agent: "documents", Key: own.Public(), Feed: server.Public()}
	anothers, unnamed := good, good
	anothers.Key, unnamed.Gateway = other.Public(), ""
	fingerprint := server.Public().ID()
	if e, err := pinned(sign(server, TypeEnrolled, good), fingerprint, own.Public()); err != nil || e != good {
		t.Fatalf("%+v %v", e, err)
	}
	for name, compact := range map[string]string{
		"signed by another":    sign(other, TypeEnrolled, good),
		"of another type":      sign(server, TypeSetup, good),
		"of another gateway":   sign(server, TypeEnrolled, anothers),
		"of no gateway":        sign(server, TypeEnrolled, unnamed),
		"no statement":         "x",
		"not base64":           "a.!.b",
		"no claims":            "a." + base64.RawURLEncoding.EncodeToString([]byte("x")) + ".b",
		"with another's claim": sign(other, TypeEnrolled, Enrolled{Server: good.Server, Gateway: "gw_1", Agent: "documents", Key: own.Public(), Feed: other.Public()}),
	} {
		if _, err := pinned(compact, fingerprint, own.Public()); err == nil {
			t.Errorf("ATK-36 %s", name)
		}
	}
	r, a := newRemote(t)
	for name, s := range map[string]struct {
		by    signed.Key
		setup Setup
		ok    bool
	}{
		"good":               {server, Setup{Server: r.Client.Server, Gateway: "gw_1", Time: noon.UnixMilli()}, true},
		"by another":         {other, Setup{Server: r.Client.Server, Gateway: "gw_1", Time: noon.UnixMilli()}, false},
		"of another gateway": {server, Setup{Server: r.Client.Server, Gateway: "gw_2", Time: noon.UnixMilli()}, false},
		"of another server":  {server, Setup{Server: "https://other.example", Gateway: "gw_1", Time: noon.UnixMilli()}, false},
		"of another time":    {server, Setup{Server: r.Client.Server, Gateway: "gw_1", Time: noon.Add(-2 * time.Minute).UnixMilli()}, false},
	} {
		a.by[PathSetup] = map[string]string{"setup": sign(s.by, TypeSetup, s.setup)}
		if _, err := r.Client.Setup(t.Context(), server.Public(), "gw_1"); (err == nil) != s.ok {
			t.Errorf("ATK-36 setup %s: %v", name, err)
		}
	}
	secret := Setup{Gateway: "gw_1", Sealing: []byte("sealing-secret-sealing-secret-00")}
	if text := fmt.Sprintf("%v %+v %s %#v", secret, secret, secret, secret); strings.Contains(text, "sealing") || strings.Contains(text, "115") {
		t.Errorf("a setup shows %s", text)
	}
}

// Attempts survive the way to the policies.
func TestAttemptsOnTheWire(t *testing.T) {
	op, err := powerbox.ParseOperation("documents/read/retrieve")
	if err != nil {
		t.Fatal(err)
	}
	invocation, err := powerbox.Invocation(op, powerbox.Object(powerbox.Member{Name: "a", Value: powerbox.String("b")}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []powerbox.Attempt{invocation, powerbox.Admission(op, op)} {
		got, err := attemptOf(want).Attempt()
		if err != nil || got.IsAdmission() != want.IsAdmission() || len(got.Required()) != len(want.Required()) ||
			!want.IsAdmission() && got.Arguments().String() != want.Arguments().String() {
			t.Errorf("%+v is %+v: %v", want, got, err)
		}
	}
	for _, bad := range []Attempt{{Operations: []string{""}}, {Operations: []string{"a"}, Arguments: json.RawMessage(`[`)}} {
		if _, err := bad.Attempt(); err == nil {
			t.Errorf("%+v is an attempt", bad)
		}
	}
}

// What the server refuses is told with its words.
func TestAnswersThatAreNone(t *testing.T) {
	r, _ := newRemote(t)
	r.Client.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusConflict, Status: "409 Conflict", Body: io.NopCloser(strings.NewReader(`{"detail":"the chain is forked"}`))}, nil
	})
	if _, err := r.Client.Send(t.Context(), [][]byte{[]byte(`{}`)}, nil); err == nil || !strings.Contains(err.Error(), "the chain is forked") {
		t.Errorf("refused: %v", err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
