package issuer_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/store/sqlite"
	"github.com/powerbox-project/powerbox/internal/store/storetest"
	"github.com/powerbox-project/powerbox/token"
)

var noon = time.Date(2027, 1, 15, 12, 0, 0, 0, time.UTC)

// rules is a policy: who may do what, on "agent" or on a resource's id.
type rules struct {
	digest   string
	allow    map[string]issuer.Ruling // "user operation resource"
	group    string                   // without which nothing is allowed, "" for none
	tenant   string                   // attribute that must be this, "" for any
	subjects *[]identity.Caller       // who was asked about
}

func (r rules) Permits(c identity.Caller, _, _, operation string, item *catalogue.Item) issuer.Ruling {
	resource := "agent"
	if item != nil {
		resource = item.ID
	}
	*r.subjects = append(*r.subjects, c)
	tenant, _ := c.Attributes["tenant"].Text()
	if r.group != "" && !strings.Contains(strings.Join(c.Groups, " "), r.group) || r.tenant != "" && tenant != r.tenant {
		return issuer.Ruling{}
	}
	return r.allow[c.Principal+" "+operation+" "+resource]
}

func (r rules) Digest() string { return r.digest }

// town is an issuer over a real store.
type town struct {
	t      *testing.T
	store  *sqlite.Store
	issuer *issuer.Issuer
	config issuer.Config
	now    time.Time
	agent  *issuer.Agent
	asked  []identity.Caller
}

// migrated has the schema of every town's store.
var migrated = storetest.Migrated{Migrate: sqlite.Migrate}

func newTown(t *testing.T) *town {
	t.Helper()
	w := &town{t: t, now: noon}
	_, recordKey, _ := ed25519.GenerateKey(rand.Reader)
	signer, err := evidence.NewEd25519Signer(recordKey)
	if err != nil {
		t.Fatal(err)
	}
	_, logKey, _ := ed25519.GenerateKey(rand.Reader)
	checkpoint, _, err := evidence.NewLogSigner("example.org/log", logKey)
	if err != nil {
		t.Fatal(err)
	}
	w.store, err = sqlite.Open(t.Context(), sqlite.Config{
		Path: migrated.Path(t), Signer: signer, Origin: "example.org/log", Checkpoint: checkpoint, Random: rand.Reader,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.store.Close() })
	sealer, err := catalogue.NewSealer(make([]byte, catalogue.SealKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	w.agent = documents(t)
	w.config = issuer.Config{
		Store: w.store, Policy: w.rules("one"), Sealer: sealer, Agents: []*issuer.Agent{w.agent}, Recorder: "serve", Pairwise: make([]byte, 32),
		MaximumLifetime: time.Hour, Now: func() time.Time { return w.now }, Random: rand.Reader, Log: slog.New(slog.DiscardHandler),
	}
	w.restart()
	return w
}

// restart makes the issuer anew over the same store.
func (w *town) restart() {
	w.t.Helper()
	var err error
	if w.issuer, err = issuer.New(w.t.Context(), w.config); err != nil {
		w.t.Fatal(err)
	}
}

// rules are the policy under which alice may read and search two of the three
// reports, and write one.
func (w *town) rules(digest string) rules {
	yes := issuer.Ruling{Allow: true}
	return rules{digest: digest, subjects: &w.asked, allow: map[string]issuer.Ruling{
		"user:alice retrieve q1": yes, "user:alice retrieve q2": yes, "user:alice search q1": yes, "user:alice search q2": yes,
		"user:alice delete q1": yes, "user:alice archive agent": yes, "user:alice fix agent": yes, "user:bob retrieve q3": yes,
	}}
}

func documents(t *testing.T) *issuer.Agent {
	t.Helper()
	key, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	shape, err := powerbox.NewShape(powerbox.RestNone, powerbox.Field{Name: "handle", Constraint: powerbox.Wildcard{}, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	free := powerbox.AnyArguments()
	return &issuer.Agent{
		ID: "documents", URL: "https://gate.example/agents/documents", Signer: func() token.Signer { return key },
		Grants: []issuer.Grant{
			{ID: "read", Operations: []string{"retrieve", "search"}, Attenuable: true, MaximumDepth: 1},
			{ID: "write", Operations: []string{"delete"}, Requires: []string{"read"}, Attenuable: true, MaximumDepth: 1, MaximumLifetime: 10 * time.Minute},
			{ID: "fixed", Operations: []string{"fix"}, MaximumDepth: 3},
			{ID: "admin", Operations: []string{"*"}, Legacy: true},
			{ID: "broken", Operations: []string{"break"}, Legacy: true, Attenuable: true},
		},
		Skills: []issuer.Skill{
			{Skill: "retrieve_document", Grant: "read", Operation: "retrieve", Handle: "handle", Shape: shape},
			{Skill: "read_document", Grant: "read", Operation: "retrieve", Handle: "handle", Shape: shape},
			{Skill: "search_documents", Grant: "read", Operation: "search", Shape: free},
			{Skill: "delete_document", Grant: "write", Operation: "delete", Handle: "handle", Shape: shape, Write: true},
			{Skill: "archive_document", Grant: "admin", Operation: "archive", Shape: free, Write: true},
		},
		Resources: []catalogue.Item{report("q1", "Q1"), report("q2", "Q2"), report("q3", "Q3")},
	}
}

func report(id, name string) catalogue.Item {
	return catalogue.Item{Agent: "documents", Collection: "reports", ID: id, Name: name, Attributes: map[string]powerbox.Value{"quarter": powerbox.String(name)}}
}

// alice is a caller with a key, and mailer another agent's.
func caller(t *testing.T, principal string) identity.Caller {
	t.Helper()
	key, err := token.GenerateKey(token.Ed25519, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return identity.Caller{
		Principal: principal, Agent: "orchestrator", SessionExpires: noon.Add(24 * time.Hour), Groups: []string{"finance"},
		Attributes: map[string]powerbox.Value{"tenant": powerbox.String("acme")},
		Holder:     identity.Holder{ID: "key:" + key.Public().Thumbprint(), Key: key.Public()},
	}
}

func query(t *testing.T, filter ...powerbox.Member) *catalogue.Query {
	t.Helper()
	q, err := catalogue.ParseQuery(powerbox.Object(
		powerbox.Member{Name: "collection", Value: powerbox.String("reports")}, powerbox.Member{Name: "filter", Value: powerbox.Object(filter...)}))
	if err != nil {
		t.Fatal(err)
	}
	return &q
}

// request asks and expects to get.
func (w *town) request(c identity.Caller, req issuer.Request) []issuer.Capability {
	w.t.Helper()
	got, err := w.issuer.Request(w.t.Context(), "documents", c, req)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// read asks for the reports to read.
func (w *town) read(c identity.Caller) issuer.Capability {
	w.t.Helper()
	return w.request(c, issuer.Request{Grants: []string{"read"}, Purpose: "p", Query: query(w.t)})[0]
}

// refusal is the code of an error, "" for none.
func refusal(t *testing.T, err error) issuer.Code {
	t.Helper()
	var r *issuer.Refusal
	if err != nil && (!errors.As(err, &r) || !errors.Is(err, powerbox.ErrDenied)) {
		t.Fatalf("%v is no refusal", err)
	}
	if r == nil {
		return ""
	}
	return r.Code
}

// last is the newest record.
func (w *town) last() evidence.Record {
	w.t.Helper()
	var out evidence.Record
	err := w.store.View(context.Background(), func(r issuer.Reader) error {
		page, err := r.Records(issuer.RecordQuery{Limit: 1})
		if err == nil && len(page.Records) > 0 {
			out = page.Records[0].Record()
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}
