package openfga

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"github.com/openfga/language/pkg/go/transformer"
	"github.com/openfga/openfga/pkg/server"
	"github.com/openfga/openfga/pkg/storage/memory"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/sources"
)

const model = `
model
  schema 1.1
type user
type group
  relations
    define member: [user]
type report
  relations
    define owner: [user]
    define viewer: [user, user:*, group#member] or owner
type payroll
  relations
    define viewer: [user]
`

// fga is an OpenFGA in this process behind its own HTTP interface, with the requests that
// reached it.
type fga struct {
	url, store, model string
	requests          *bytes.Buffer
}

func start(t *testing.T, tuples ...[3]string) fga {
	t.Helper()
	ctx := t.Context()
	s := server.MustNewServerWithOpts(server.WithDatastore(memory.New()))
	t.Cleanup(s.Close)
	created, err := s.CreateStore(ctx, &openfgav1.CreateStoreRequest{Name: "reports"})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := transformer.TransformDSLToProto(model)
	if err != nil {
		t.Fatal(err)
	}
	written, err := s.WriteAuthorizationModel(ctx, &openfgav1.WriteAuthorizationModelRequest{
		StoreId: created.GetId(), SchemaVersion: parsed.GetSchemaVersion(), TypeDefinitions: parsed.GetTypeDefinitions(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for some := range slices.Chunk(tuples, 50) {
		var keys []*openfgav1.TupleKey
		for _, one := range some {
			keys = append(keys, &openfgav1.TupleKey{User: one[0], Relation: one[1], Object: one[2]})
		}
		if _, err := s.Write(ctx, &openfgav1.WriteRequest{StoreId: created.GetId(), Writes: &openfgav1.WriteRequestWrites{TupleKeys: keys}}); err != nil {
			t.Fatal(err)
		}
	}
	mux := runtime.NewServeMux()
	if err := openfgav1.RegisterOpenFGAServiceHandlerServer(context.WithoutCancel(ctx), mux, s); err != nil {
		t.Fatal(err)
	}
	seen := new(bytes.Buffer)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen.Write(body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return fga{front.URL, created.GetId(), written.GetAuthorizationModelId(), seen}
}

func (f fga) source(t *testing.T) *sources.Guarded {
	return sources.Guard(sources.OpenFGA{Client: http.DefaultClient, URL: f.url, Store: f.store, Model: f.model, Type: "report"},
		sources.Settings{Prefix: "r/", Timeout: 10 * time.Second, Calls: 4, Now: time.Now, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
}

func ask(t *testing.T, s *sources.Guarded, principal, action string) ([]string, error) {
	t.Helper()
	v, err := powerbox.ParseValue([]byte(`{"collection":"reports"}`))
	if err != nil {
		t.Fatal(err)
	}
	q, err := catalogue.ParseQuery(v)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Page(t.Context(), catalogue.Question{
		Principal: principal, Action: action, Query: q, Collection: catalogue.Collection{Agent: "documents", Name: "reports"},
	})
	var ids []string
	for _, item := range p.Items {
		ids = append(ids, item.ID)
	}
	return ids, err
}

// OpenFGA's own answer is what a principal may be issued: direct, by a group, as owner,
// and as any user.
func TestResourcesOfOpenFGA(t *testing.T) {
	f := start(t, [][3]string{
		{"user:alice", "viewer", "report:q1"},
		{"group:finance#member", "viewer", "report:q2"},
		{"user:alice", "member", "group:finance"},
		{"user:alice", "owner", "report:q3"},
		{"user:*", "viewer", "report:public"},
		{"user:bob", "viewer", "report:of-bob"},
		{"user:alice", "viewer", "payroll:salaries"},
	}...)
	s := f.source(t)
	for what, c := range map[string]struct {
		principal, action string
		want              []string
	}{
		"viewer":  {"user:alice", "viewer", []string{"r/public", "r/q1", "r/q2", "r/q3"}},
		"owner":   {"user:alice", "owner", []string{"r/q3"}},
		"another": {"user:bob", "viewer", []string{"r/of-bob", "r/public"}},
		"unknown": {"user:carol", "viewer", []string{"r/public"}},
	} {
		if got, err := ask(t, s, c.principal, c.action); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, %v; want %q", what, got, err, c.want)
		}
	}
}

// ATK-110: a user's name is no group, no relation and not all users for OpenFGA: it does
// not reach OpenFGA at all.
func TestATK110_ANameIsNoUsersetOfOpenFGA(t *testing.T) {
	f := start(t, [3]string{"group:finance#member", "viewer", "report:q2"}, [3]string{"user:*", "viewer", "report:public"})
	s := f.source(t)
	for _, name := range []string{"group:finance#member", "user:*", "user:a#member", "user:", ":alice", "user:a b", "user:a:b", "user:alice\n", "user:\u202ealice", `user:"x`} {
		if got, err := ask(t, s, name, "viewer"); err == nil {
			t.Errorf("the user %q sees %q", name, got)
		}
	}
	if f.requests.Len() > 0 {
		t.Errorf("OpenFGA was asked %s", f.requests)
	}
}

// A relation that the model does not have is a failure, and so is a store that is not there.
func TestAWrongModelFailsClosed(t *testing.T) {
	f := start(t, [3]string{"user:alice", "viewer", "report:q1"})
	if got, err := ask(t, f.source(t), "user:alice", "editor"); err == nil {
		t.Errorf("an unknown relation gives %q", got)
	}
	f.store = strings.Repeat("0", len(f.store))
	if got, err := ask(t, f.source(t), "user:alice", "viewer"); err == nil {
		t.Errorf("an unknown store gives %q", got)
	}
}

// OpenFGA answers with at most 1,000 objects, which are one page.
func TestOpenFGAHasOnePage(t *testing.T) {
	var tuples [][3]string
	for n := range 1100 {
		tuples = append(tuples, [3]string{"user:alice", "viewer", fmt.Sprintf("report:%04d", n)})
	}
	got, err := ask(t, start(t, tuples...).source(t), "user:alice", "viewer")
	if err != nil || len(got) != 1000 {
		t.Errorf("got %d, %v; want the 1,000 that OpenFGA returns", len(got), err)
	}
}
