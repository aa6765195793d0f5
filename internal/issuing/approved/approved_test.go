package approved_test

import (
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/approved"
)

func whole() approved.Approved {
	return approved.Approved{
		Question: "ask_1", Request: "key", Agent: "documents", Recipient: "key:a", Principal: "user:alice", Shown: "shown",
		Asker: approved.Asker{Name: "reader", Host: "hst_1", Key: "thumb", Purpose: "Summarize"},
		Parts: []approved.Part{{
			Grant: "documents:read", Operations: []approved.Operation{{Name: "retrieve", Limits: []byte(`{"fields":{},"rest":"none"}`)}, {Name: "search"}},
			Resources: []string{"/a"}, Until: time.Date(2026, 11, 23, 20, 38, 0, 0, time.UTC),
		}},
	}
}

// TestTheDigestNamesEverything changes one member after another: each change has
// another digest (ATK-46).
func TestTheDigestNamesEverything(t *testing.T) {
	seen := map[string]string{whole().Digest(): "nothing changed"}
	for name, change := range map[string]func(*approved.Approved){
		"question": func(a *approved.Approved) { a.Question = "ask_2" }, "request": func(a *approved.Approved) { a.Request = "other" },
		"agent": func(a *approved.Approved) { a.Agent = "mail" }, "recipient": func(a *approved.Approved) { a.Recipient = "key:b" },
		"principal": func(a *approved.Approved) { a.Principal = "user:bob" }, "shown": func(a *approved.Approved) { a.Shown = "other" },
		"name": func(a *approved.Approved) { a.Asker.Name = "x" }, "host": func(a *approved.Approved) { a.Asker.Host = "x" },
		"key": func(a *approved.Approved) { a.Asker.Key = "x" }, "purpose": func(a *approved.Approved) { a.Asker.Purpose = "x" },
		"grant":       func(a *approved.Approved) { a.Parts[0].Grant = "x" },
		"operation":   func(a *approved.Approved) { a.Parts[0].Operations[1].Name = "delete" },
		"limits":      func(a *approved.Approved) { a.Parts[0].Operations[0].Limits = nil },
		"resource":    func(a *approved.Approved) { a.Parts[0].Resources = append(a.Parts[0].Resources, "/b") },
		"no resource": func(a *approved.Approved) { a.Parts[0].Resources = nil },
		"end":         func(a *approved.Approved) { a.Parts[0].Until = a.Parts[0].Until.Add(time.Second) },
		"a part more": func(a *approved.Approved) { a.Parts = append(a.Parts, approved.Part{Grant: "x"}) },
		"no part":     func(a *approved.Approved) { a.Parts = nil },
	} {
		a := whole()
		change(&a)
		if before, same := seen[a.Digest()]; same {
			t.Errorf("%s has the digest of %s", name, before)
		}
		seen[a.Digest()] = name
	}
	local := whole()
	local.Parts[0].Until = local.Parts[0].Until.In(time.FixedZone("", 3600))
	if local.Digest() != whole().Digest() {
		t.Error("the same end in another zone has another digest")
	}
}

// TestWhatIsNotNamedWasNotApproved asks for what an approval does not have.
func TestWhatIsNotNamedWasNotApproved(t *testing.T) {
	a := whole()
	if _, ok := a.Of("documents:write"); ok {
		t.Error("a grant that was not approved")
	}
	if _, ok := (approved.Approved{Parts: []approved.Part{{Grant: "g"}}}).Of("g"); ok {
		t.Error("a grant of which no operation was approved")
	}
	p, ok := a.Of("documents:read")
	if _, has := p.Shape("delete"); !ok || has {
		t.Error("an operation that was not approved")
	}
	for _, limits := range []string{`{"fields":`, `{"rest":"whatever"}`, `[]`} {
		p.Operations[0].Limits = []byte(limits)
		if _, has := p.Shape("retrieve"); has {
			t.Errorf("limits %s cannot be read, and are taken for none", limits)
		}
	}
}
