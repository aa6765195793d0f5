package issuer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/steady"
	"github.com/powerbox-project/powerbox/token"
)

func TestSEP12_NarrowIsNeverWider(t *testing.T) {
	w := newTown(t)
	alice, mailer := caller(t, "user:alice"), caller(t, "user:alice")
	c := w.read(alice)
	one := c.Handles[0].Handle
	child, err := w.issuer.Narrow(t.Context(), "documents", alice, c.ID, issuer.Narrowing{
		Handles: []string{one}, Operations: []string{"retrieve"}, Expires: noon.Add(time.Minute), Recipient: mailer.Holder, Agent: "mail", Task: "task-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	if child.Holder != mailer.Holder.ID || child.Requester != "mail" || child.Root != c.ID || !cmp.Equal(child.Lineage(), []string{c.ID, child.ID}) ||
		!cmp.Equal(child.Operations(), []string{"retrieve"}) || len(child.Handles) != 1 || !child.Expires.Equal(noon.Add(time.Minute)) || child.Token == "" ||
		child.Task != "task-1" || child.Authority.Depth() != 0 || !c.Authority.Covers(child.Authority) {
		t.Errorf("the child is %+v", child)
	}
	all := issuer.Narrowing{Handles: []string{one, "rh_other"}, Operations: []string{"retrieve", "delete"}, Expires: c.Expires.Add(time.Hour)}
	_, err = w.issuer.Narrow(t.Context(), "documents", alice, c.ID, all)
	var r *issuer.Refusal
	if !errors.As(err, &r) || r.Code != issuer.CodeWider || len(r.Details) != 3 || !strings.Contains(r.Error(), "rh_other") || r.Record == "" {
		t.Errorf("SEP-12 wider in three ways: %v", err)
	}
	for name, c := range map[string]struct {
		caller    identity.Caller
		id        string
		narrowing issuer.Narrowing
		want      issuer.Code
	}{
		"another holder":  {mailer, c.ID, issuer.Narrowing{Operations: []string{"search"}}, issuer.CodeCapabilityUnknown},
		"an unknown id":   {alice, "cap_0", issuer.Narrowing{Operations: []string{"search"}}, issuer.CodeCapabilityUnknown},
		"another session": {identity.Caller{Principal: "user:bob", Holder: alice.Holder}, c.ID, issuer.Narrowing{Operations: []string{"search"}}, issuer.CodeNotPrincipal},
		"nothing left":    {alice, c.ID, issuer.Narrowing{Operations: []string{}}, issuer.CodeNothingGranted},
		"passed on twice": {mailer, child.ID, issuer.Narrowing{Recipient: alice.Holder}, issuer.CodeDelegationDepth},
	} {
		if _, err := w.issuer.Narrow(t.Context(), "documents", c.caller, c.id, c.narrowing); refusal(t, err) != c.want {
			t.Errorf("SEP-12 %s: %v; want %s", name, err, c.want)
		}
	}
	if held, err := w.issuer.Held(t.Context(), mailer, child.ID); err != nil || held.ID != child.ID {
		t.Errorf("SEP-13 the recipient holds %+v, %v", held, err)
	}
	w.now = noon.Add(time.Minute)
	if _, err := w.issuer.Held(t.Context(), mailer, child.ID); refusal(t, err) != issuer.CodeCapabilityExpired {
		t.Errorf("SEP-11 after its end: %v", err)
	}
}

func TestSEP20_Revoke(t *testing.T) {
	w := newTown(t)
	alice, bob := caller(t, "user:alice"), caller(t, "user:bob")
	c, other := w.read(alice), w.read(alice)
	for _, id := range []string{c.RevocationID, "rv_0"} {
		if _, err := w.issuer.Revoke(t.Context(), "documents", bob, id); refusal(t, err) != issuer.CodeCapabilityUnknown {
			t.Errorf("by a stranger: %v", err)
		}
	}
	if _, err := w.issuer.Revoke(t.Context(), "mail", alice, c.RevocationID); refusal(t, err) != issuer.CodeCapabilityUnknown {
		t.Errorf("at another agent: %v", err)
	}
	child, err := w.issuer.Narrow(t.Context(), "documents", alice, c.ID, issuer.Narrowing{Operations: []string{"search"}})
	if err != nil {
		t.Fatal(err)
	}
	first, err := w.issuer.Revoke(t.Context(), "documents", identity.Caller{Principal: "user:alice", Holder: bob.Holder}, c.RevocationID)
	if err != nil || first.Sequence != 1 || w.issuer.RevocationSequence() != 1 {
		t.Fatalf("by the principal: %+v, %v", first, err)
	}
	if again, err := w.issuer.Revoke(t.Context(), "documents", alice, c.RevocationID); err != nil || again.Sequence != 1 {
		t.Errorf("twice: %+v, %v", again, err)
	}
	if !anyRevoked(w.issuer, child.Lineage()) || anyRevoked(w.issuer, other.Lineage()) {
		t.Error("the descendants stay, or others go with it")
	}
	held, err := w.issuer.List(t.Context(), "documents", alice)
	if err != nil || len(held) != 1 || held[0].ID != other.ID {
		t.Errorf("list: %+v, %v", held, err)
	}
	if _, err := w.issuer.List(t.Context(), "documents", identity.Caller{}); refusal(t, err) != issuer.CodeUnauthenticated {
		t.Errorf("list for nobody: %v", err)
	}
	if _, err := w.issuer.Held(t.Context(), alice, child.ID); refusal(t, err) != issuer.CodeCapabilityRevoked {
		t.Errorf("use: %v", err)
	}
	if _, err := w.issuer.RevokeAsOperator(t.Context(), "operator", issuer.Target{ID: "a-later-one"}); err != nil {
		t.Fatal(err) // the newest event is read in another way
	}
	w.restart()
	if !w.issuer.Revoked(c.ID) || !w.issuer.Revoked("a-later-one") {
		t.Error("a revocation is forgotten with the process")
	}
	for _, target := range []string{other.ID, other.RevocationID, "hash-of-a-link"} {
		if r, err := w.issuer.RevokeAsOperator(t.Context(), "operator", issuer.Target{ID: target}); err != nil || !w.issuer.Revoked(r.Target) {
			t.Errorf("by an operator: %+v, %v", r, err)
		}
	}
	if r := w.last(); r.ActionType != "capability.revoke" || r.AgentID != "powerbox" || r.Details.Requester != "operator" {
		t.Errorf("recorded as %+v", r)
	}
	// What has expired anyway is forgotten with time; see until.Hashed for one process.
	defer steady.Believe()()
	w.now = noon.Add(token.MaxLifetime + steady.Margin + time.Hour)
	if w.restart(); w.issuer.Revoked(c.ID) {
		t.Error("kept for ever")
	}
}

func TestSEP22_EndOfTask(t *testing.T) {
	w := newTown(t)
	alice := caller(t, "user:alice")
	root := w.read(alice)
	own := func(task string, o issuer.Owner) {
		if err := w.store.Update(t.Context(), func(tx issuer.Tx) error { _, err := tx.BindTask("documents", "", task, o); return err }); err != nil {
			t.Fatal(err)
		}
	}
	me := w.issuer.Pseudonym("documents", "user:alice")
	own("task-1", issuer.Owner{Root: root.ID, Principal: me, Holder: alice.Holder.ID})
	own("task-2", issuer.Owner{Principal: me, Holder: alice.Holder.ID})
	own("task-3", issuer.Owner{Principal: me, Holder: "key:other"})
	own("task-4", issuer.Owner{Root: root.ID, Principal: me, Holder: "key:a-delegate"})
	req := issuer.Request{Grants: []string{"read"}, Purpose: "p", Query: query(t)}
	for task, want := range map[string]issuer.Code{"task-1": "", "task-2": "", "task-3": issuer.CodeTaskUnknown, "task-4": issuer.CodeTaskUnknown} {
		req.Task = task
		if _, err := w.issuer.Request(t.Context(), "documents", alice, req); refusal(t, err) != want {
			t.Errorf("SEP-22 %s: %v; want %q", task, err, want)
		}
	}
	req.Task = "task-1"
	c := w.request(alice, req)[0]
	for _, task := range []string{"task-1", "task-1", "task-3"} { // nothing is for the last one
		if err := w.issuer.EndTask(t.Context(), "documents", "", task); err != nil {
			t.Fatal(err)
		}
	}
	if !anyRevoked(w.issuer, c.Links()) || anyRevoked(w.issuer, root.Links()) || w.issuer.RevocationSequence() != 1 {
		t.Errorf("SEP-22 after the end of its task: %v", c.Links())
	}
	if r := w.last(); r.ActionType != "task.end" || r.TaskID != "task-1" {
		t.Errorf("SEP-22 recorded as %+v", r)
	}
}

// Anything that is not on record is revoked for as long as a token can live, a task
// that has ended likewise, and revoking again only makes it longer.
func TestSEP20_UnknownTargetsOutliveTheirTokens(t *testing.T) {
	w := newTown(t)
	alice := caller(t, "user:alice")
	root := w.read(alice)
	bind := func(tx issuer.Tx) error {
		_, err := tx.BindTask("documents", "", "task-1", issuer.Owner{Root: root.ID, Principal: w.issuer.Pseudonym("documents", "user:alice"), Holder: alice.Holder.ID})
		return err
	}
	if err := w.store.Update(t.Context(), bind); err != nil {
		t.Fatal(err)
	}
	c := w.request(alice, issuer.Request{Grants: []string{"read"}, Purpose: "p", Query: query(t), Task: "task-1"})[0]
	if err := w.issuer.EndTask(t.Context(), "documents", "", "task-1"); err != nil {
		t.Fatal(err)
	}
	operator := func(target string, until time.Duration, sequence int64) {
		r, err := w.issuer.RevokeAsOperator(t.Context(), "operator", issuer.Target{ID: target})
		if err != nil || !r.Until.Equal(noon.Add(until)) || r.Sequence != sequence {
			t.Errorf("SEP-20 %s: %+v, %v", target, r, err)
		}
	}
	operator("hash-of-a-link", token.MaxLifetime, 2)
	w.now = noon.Add(time.Hour)
	operator("hash-of-a-link", token.MaxLifetime+time.Hour, 3)
	w.now = noon.Add(-time.Hour) // a clock that was set back does not shorten it
	r, err := w.issuer.RevokeAsOperator(t.Context(), "operator", issuer.Target{ID: "hash-of-a-link"})
	if err != nil || r.Sequence != 2 && r.Sequence != 3 {
		t.Errorf("SEP-20 a shorter one is an event: %+v, %v", r, err)
	}
	// The longer end counts, from memory and from the store.
	w.now = noon.Add(token.MaxLifetime + time.Minute)
	operator("another", 2*token.MaxLifetime+time.Minute, 4)
	if !w.issuer.Revoked("hash-of-a-link") {
		t.Error("SEP-20 in memory the longer end does not count")
	}
	w.now = noon.Add(token.MaxLifetime - time.Second)
	w.restart()
	if !anyRevoked(w.issuer, c.Links()) {
		t.Error("SEP-22 the end of a task is forgotten before its tokens end")
	}
	defer steady.Believe()()
	w.now = noon.Add(token.MaxLifetime + steady.Margin + time.Minute)
	w.restart()
	if !w.issuer.Revoked("hash-of-a-link") || anyRevoked(w.issuer, c.Links()) {
		t.Error("SEP-20 the longer end does not count, or a shorter one is kept")
	}
	w.now = noon.Add(token.MaxLifetime + steady.Margin + 2*time.Hour)
	w.restart()
	if w.issuer.Revoked("hash-of-a-link") {
		t.Error("SEP-20 kept for ever")
	}
}

// TestATK73_ClocksThatJump: anything that was revoked stays so when the clock jumps ahead, others
// are revoked meanwhile, and the clock comes back; also where the process began anew with
// the clock ahead.
func TestATK73_ClocksThatJump(t *testing.T) {
	for name, begins := range map[string]bool{"while the process runs": false, "and the process begins": true} {
		t.Run(name, func(t *testing.T) {
			w := newTown(t)
			alice := caller(t, "user:alice")
			c := w.read(alice)
			if _, err := w.issuer.Revoke(t.Context(), "documents", alice, c.RevocationID); err != nil {
				t.Fatal(err)
			}
			// Every event has a look at those of a holder, and at ids that share a part of the set.
			other := caller(t, "user:alice")
			d := w.read(other)
			if _, err := w.issuer.RevokeAsOperator(t.Context(), "operator", issuer.Target{All: issuer.Bulk{Holder: other.Holder.ID}}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.issuer.RevokeAsOperator(t.Context(), "operator", issuer.Target{ID: "a-later-one"}); err != nil {
				t.Fatal(err) // the newest event is read in another way
			}
			w.now = noon.Add(2 * token.MaxLifetime)
			if begins {
				w.restart()
			}
			for n := range 70 {
				if _, err := w.issuer.RevokeAsOperator(t.Context(), "operator", issuer.Target{ID: fmt.Sprint("another", n)}); err != nil {
					t.Fatal(err)
				}
			}
			w.now = noon
			if !w.issuer.Revoked(c.ID) || !w.issuer.Dead(d) {
				t.Error("ATK-73 a revoked capability works again")
			}
		})
	}
}

// Policy at use: asked only where it changed, about the principal as it was,
// and never to add.
func TestSEP7_Veto(t *testing.T) {
	w := newTown(t)
	alice := caller(t, "user:alice")
	c := w.read(alice)
	handle := map[string]string{}
	for _, h := range c.Handles {
		handle[h.Resource] = h.Handle
	}
	try := func(name, h string) powerbox.Attempt {
		op, err := powerbox.ParseOperation(name)
		if err != nil {
			t.Fatal(err)
		}
		args := powerbox.Object()
		if h != "" {
			args = powerbox.Object(powerbox.Member{Name: "handle", Value: powerbox.String(h)})
		}
		a, err := powerbox.Invocation(op, args)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	vetoed := func(attempts ...powerbox.Attempt) bool {
		known, err := w.issuer.OnRecord(t.Context(), c.ID)
		if err != nil || known.ID != c.ID {
			t.Fatalf("on record: %+v, %v", known, err)
		}
		_, no := w.issuer.Vetoed(known, attempts)
		return no
	}
	w.asked = nil
	if vetoed(try("documents/read/retrieve", handle["q1"])) || len(w.asked) > 0 {
		t.Error("asked under the same policies")
	}
	change := func(f func(*rules)) {
		p := w.rules("two")
		f(&p)
		w.config.Policy = p
		w.restart()
		w.asked = nil
	}
	change(func(p *rules) { p.group, p.tenant = "finance", "acme" })
	if vetoed(try("documents/read/retrieve", handle["q1"]), try("a2a.message", "")) {
		t.Error("vetoed what is still allowed")
	}
	if s := w.asked[0]; s.Principal != "user:alice" || !cmp.Equal(s.Groups, []string{"finance"}) {
		t.Errorf("asked about %+v", s)
	}
	change(func(p *rules) { delete(p.allow, "user:alice retrieve q1"); delete(p.allow, "user:alice search q1") })
	for name, want := range map[string]bool{"q1": true, "q2": false} {
		if got := vetoed(try("documents/read/retrieve", handle[name])); got != want {
			t.Errorf("%s: vetoed %t", name, got)
		}
	}
	op := try("documents/read/search", "").Operation()
	if vetoed(try("documents/read/search", "")) || vetoed(powerbox.Admission(op)) {
		t.Error("vetoed although one resource is left")
	}
	if left := w.issuer.Permitted(c); len(left) != 1 || left[0].Resource != "q2" {
		t.Errorf("left is %+v", left)
	}
	change(func(p *rules) {
		p.allow["user:alice search agent"] = issuer.Ruling{Allow: true}
		p.allow["user:alice search q1"] = issuer.Ruling{}
	})
	if vetoed(try("documents/read/search", "")) {
		t.Error("vetoed what is allowed on the agent itself")
	}
	change(func(p *rules) { p.allow["user:alice retrieve q1"] = issuer.Ruling{Allow: true, Approval: "human"} })
	if !vetoed(try("documents/read/retrieve", handle["q1"])) {
		t.Error("what needs an approval now is let through")
	}
	change(func(p *rules) { p.group = "board" })
	if !vetoed(try("documents/read/search", "")) || len(w.issuer.Permitted(c)) != 0 {
		t.Error("a group that was not the principal's counts")
	}
	c.Subject.Attributes["tenant"] = []byte("{")
	if _, no := w.issuer.Vetoed(c, []powerbox.Attempt{try("documents/read/search", "")}); !no || w.issuer.Permitted(c) != nil {
		t.Error("a damaged record is let through")
	}
	if unknown, err := w.issuer.OnRecord(t.Context(), "cap_0"); err != nil || unknown.ID != "" {
		t.Errorf("a capability that is not on record: %+v, %v", unknown, err)
	}
}

// What cannot be recorded did not happen.
func TestEXT27_NothingWithoutItsRecord(t *testing.T) {
	w := newTown(t)
	alice := caller(t, "user:alice")
	c := w.read(alice)
	w.config.Store = readOnly{w.store}
	w.restart()
	_, err := w.issuer.Request(t.Context(), "documents", alice, issuer.Request{Grants: []string{"read"}, Purpose: "p", Query: query(t)})
	if !errors.Is(err, evidence.ErrNotWritten) {
		t.Errorf("issued: %v", err)
	}
	if _, err := w.issuer.Narrow(t.Context(), "documents", alice, c.ID, issuer.Narrowing{Operations: []string{"search"}}); !errors.Is(err, evidence.ErrNotWritten) {
		t.Errorf("narrowed: %v", err)
	}
	if _, err := w.issuer.Revoke(t.Context(), "documents", alice, c.RevocationID); !errors.Is(err, evidence.ErrNotWritten) || w.issuer.Revoked(c.ID) {
		t.Errorf("revoked: %v", err)
	}
	if err := w.issuer.SetMode(t.Context(), "operator", "documents", "observe"); !errors.Is(err, evidence.ErrNotWritten) {
		t.Errorf("changed: %v", err)
	}
	if mode := w.issuer.Mode("documents"); mode != "" {
		t.Errorf("in force all the same: %q", mode)
	}
	// A refusal stands all the same.
	_, err = w.issuer.Request(t.Context(), "documents", alice, issuer.Request{Grants: []string{"read"}})
	if refusal(t, err) != issuer.CodePurposeMissing {
		t.Errorf("refused: %v", err)
	}
}

// readOnly is a store on a disk that takes nothing.
type readOnly struct{ issuer.Store }

func (readOnly) Update(context.Context, func(issuer.Tx) error) error { return evidence.ErrNotWritten }

func TestSEP18_SetMode(t *testing.T) {
	w := newTown(t)
	if err := w.issuer.SetMode(t.Context(), "operator", "documents", "scoped"); err != nil {
		t.Fatal(err)
	}
	mode := ""
	if err := w.store.View(t.Context(), func(r issuer.Reader) error { modes, err := r.Modes(); mode = modes["documents"]; return err }); err != nil || mode != "scoped" {
		t.Errorf("%q, %v", mode, err)
	}
	if mode := w.issuer.Mode("documents"); mode != "scoped" {
		t.Errorf("in force: %q", mode)
	}
	if r := w.last(); r.ActionType != "agent.mode" || r.Details.Requester != "operator" || !strings.Contains(string(r.Intent.Details), "scoped") {
		t.Errorf("recorded as %+v", r)
	}
	w.restart()
	if mode := w.issuer.Mode("documents"); mode != "scoped" {
		t.Errorf("after a restart: %q", mode)
	}
}

func TestNewRefusesAnIncompleteConfig(t *testing.T) {
	w := newTown(t)
	for name, change := range map[string]func(*issuer.Config){
		"Store": func(c *issuer.Config) { c.Store = nil }, "Policy": func(c *issuer.Config) { c.Policy = nil }, "Log": func(c *issuer.Config) { c.Log = nil },
		"Recorder": func(c *issuer.Config) { c.Recorder = "" }, "Pairwise": func(c *issuer.Config) { c.Pairwise = nil }, "lifetime": func(c *issuer.Config) { c.MaximumLifetime = 0 },
	} {
		c := w.config
		change(&c)
		if _, err := issuer.New(t.Context(), c); err == nil {
			t.Errorf("without %s it starts", name)
		}
	}
	if a, ok := w.issuer.Agent("documents"); !ok || a != w.agent || w.issuer.PolicyDigest() != "one" {
		t.Error("the agent or the digest is another")
	}
	w.config.Random = strings.NewReader("")
	w.restart()
	if _, err := w.issuer.NewID("cap_"); err == nil {
		t.Error("an id without randomness")
	}
	if _, err := w.issuer.Request(t.Context(), "documents", caller(t, "user:alice"), issuer.Request{}); err == nil {
		t.Error("a request without a record")
	}
}
