package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
)

// resolve is a resource query as the issuer resolves it: policy first.
func resolve(e *Engine, p Principal, query powerbox.Value, items []Resource) ([]catalogue.Item, error) {
	visible, _ := e.Filter(p, "documents/documents:read/retrieve", "documents", "documents:read", items)
	q, err := catalogue.ParseQuery(query)
	if err != nil {
		return nil, err
	}
	return q.Select(visible)
}

func query(t testing.TB, text string) powerbox.Value {
	t.Helper()
	v, err := powerbox.ParseValue([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSEP5_HiddenIsLikeAbsent adds resources that the principal may not see and
// finds every result, every error and every list unchanged.
func TestSEP5_HiddenIsLikeAbsent(t *testing.T) {
	e := quarterly(t)
	alice := Principal{ID: "alice", Groups: []string{"finance"}}
	queries := []powerbox.Value{
		query(t, `{"collection": "reports"}`),
		query(t, `{"collection": "reports", "filter": {"quarter": "2025-Q2"}}`),
		query(t, `{"collection": "reports", "filter": {"owner": "bob"}}`),
		query(t, `{"collection": "reports", "filter": {"tags": "embargo"}}`),
		query(t, `{"collection": "reports", "filter": {"level": {"min": 0}}}`),
		query(t, `{"collection": "personnel"}`),
		query(t, `{"collection": "personnel", "filter": {"level": "secret"}}`),
		query(t, `{"collection": "nothing"}`),
	}
	errors, selected := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		seen := drawReports(t, "seen", "2025-Q1", "sales")
		hidden := drawReports(t, "hidden", "2025-Q2", "bob")
		for i := range rapid.IntRange(0, 3).Draw(t, "people") {
			hidden = append(hidden, document("personnel", fmt.Sprint("person", i), "level", text("secret")))
		}
		both := rapid.Permutation(slices.Concat(seen, hidden)).Draw(t, "order")
		seen = slices.DeleteFunc(slices.Clone(both), func(r Resource) bool { return !strings.HasPrefix(r.ID, "seen") })
		for _, q := range queries {
			want, wantErr := resolve(e, alice, q, seen)
			got, gotErr := resolve(e, alice, q, both)
			if diff := cmp.Diff(want, got); diff != "" || fmt.Sprint(wantErr) != fmt.Sprint(gotErr) {
				t.Fatalf("%s: %v became %v\n%s", q, wantErr, gotErr, diff)
			}
			selected += len(got)
			if gotErr != nil {
				errors++
				if strings.Contains(gotErr.Error(), "hidden") || strings.Contains(gotErr.Error(), "person0") {
					t.Fatalf("%s: %v", q, gotErr)
				}
			}
		}
	})
	if errors == 0 || selected == 0 {
		t.Errorf("%d errors and %d items were compared", errors, selected)
	}
}

func drawReports(t *rapid.T, prefix, quarter, owner string) []Resource {
	var items []Resource
	for i := range rapid.IntRange(0, 4).Draw(t, prefix) {
		r := document("reports", fmt.Sprint(prefix, i), "quarter", text(quarter))
		if rapid.Bool().Draw(t, "owned") {
			r.Attributes["owner"] = text(owner)
		}
		if prefix == "hidden" && rapid.Bool().Draw(t, "level") {
			r.Attributes["level"] = number(3)
		}
		items = append(items, r)
	}
	return items
}

// FuzzLoad holds that whatever is loaded answers with and without the index
// alike, and that an error says where.
func FuzzLoad(f *testing.F) {
	v, docs := words(f), library()
	f.Add(`permit (principal, action, resource);`)
	f.Add(`@approval("human") permit (principal in Group::"finance", action in [Action::"mail/mail:send"], resource == Agent::"mail") unless { principal.id like "a*" };`)
	f.Add(`forbid (principal, action, resource in Collection::"documents/reports") when { resource.attributes has tags && resource.attributes.tags.containsAny(["a"]) };`)
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Load(map[string][]byte{"f.cedar": []byte(s)}, v)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f.cedar:") {
				t.Errorf("no place in %q", err)
			}
			return
		}
		p := Principal{ID: "alice", Groups: []string{"finance"}, Roles: []string{"auditor"}}
		for _, r := range []*Resource{nil, &docs[0], &docs[3]} {
			got := e.Permits(p, "documents/documents:read/retrieve", r, "documents", "documents:read")
			want := e.brute(p, "documents/documents:read/retrieve", r, "documents", "documents:read")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-brute +indexed:\n%s", diff)
			}
		}
	})
}
