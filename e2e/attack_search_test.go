package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// searchTown is a server whose collection has two records that bob may read, and hidden ones between these.
func searchTown(t *testing.T) *town {
	t.Helper()
	w := &town{t: t, dir: t.TempDir()}
	port := freePort(t)
	w.url = "http://127.0.0.1:" + port
	w.write("guard.token", guardToken+"\n")
	w.write("other.token", strings.ToUpper(guardToken))
	w.write("policies.cedar", `permit(principal == User::"user:bob", action == Action::"records/records/read", resource in Collection::"records/record") when { resource.attributes.status == "active" };`)
	var items strings.Builder
	for n := range 3 {
		fmt.Fprintf(&items, "      - {collection: record, id: secret-%05d, name: x, attributes: {status: archived}}\n", n)
	}
	const last = "      - {collection: record, id: record-2, name: Two, attributes: {status: archived}}\n"
	configuration := fmt.Sprintf(guardedConfiguration, port, w.url, aliceToken, "require")
	items.WriteString("      - {collection: record, id: visible, name: Two, attributes: {status: active}}\n      - {collection: record, id: zz-secret, name: x, attributes: {status: archived}}\n")
	w.write("powerbox.yaml", strings.Replace(configuration, last, items.String(), 1))
	w.migrate()
	w.boot()
	return w
}

// found is a page of a search.
type found struct {
	ids    []string
	next   string
	status int
	raw    string
}

// finds searches the records that a user may read.
func (w *town) finds(token, user string, page map[string]any) found {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{
		"subject": map[string]any{"type": "user", "id": user}, "action": map[string]any{"name": "read"}, "resource": map[string]any{"type": "record"}, "page": page,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	a := w.asks("search/resource", token, string(body))
	var said struct {
		Results []struct{ ID string }
		Page    struct {
			Next string `json:"next_token"`
		}
	}
	if err := json.Unmarshal([]byte(a.raw), &said); err != nil {
		w.t.Fatal(err)
	}
	f := found{next: said.Page.Next, status: a.status, raw: a.raw}
	for _, one := range said.Results {
		f.ids = append(f.ids, one.ID)
	}
	return f
}

// TestATK133_SearchesTellNothingOfHiddenResources reads pages of the search of AuthZEN. A page has a
// next one only for a result, no token names a resource, and a token is one guard's and one search's.
func TestATK133_SearchesTellNothingOfHiddenResources(t *testing.T) {
	w := searchTown(t)
	first := w.finds(guardToken, "bob", map[string]any{"limit": 1})
	if !slices.Equal(first.ids, []string{"record-1"}) || first.next == "" {
		t.Fatalf("the first page: %s", first.raw)
	}
	if sealed, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(first.next, "rc_")); err != nil || strings.Contains(string(sealed), "record") {
		t.Errorf("a token names a resource: %q %v", sealed, err)
	}
	second := w.finds(guardToken, "bob", map[string]any{"limit": 1, "token": first.next})
	if !slices.Equal(second.ids, []string{"visible"}) || second.next != "" {
		t.Errorf("the last page tells of the resources behind it: %s", second.raw)
	}
	if whole := w.finds(guardToken, "bob", map[string]any{}); !slices.Equal(whole.ids, []string{"record-1", "visible"}) || whole.next != "" {
		t.Errorf("one page: %s", whole.raw)
	}
	for name, other := range map[string]found{
		"another user's":  w.finds(guardToken, "alice", map[string]any{"token": first.next}),
		"a made-up":       w.finds(guardToken, "bob", map[string]any{"token": base64.RawURLEncoding.EncodeToString([]byte("record-1"))}),
		"a changed":       w.finds(guardToken, "bob", map[string]any{"token": first.next[:len(first.next)-2] + "AA"}),
		"another guard's": w.finds(strings.ToUpper(guardToken), "bob", map[string]any{"token": first.next}),
	} {
		if other.status != http.StatusBadRequest {
			t.Errorf("%s token: HTTP %d %s", name, other.status, other.raw)
		}
	}
	killed(t, w.process)
	w.boot()
	if again := w.finds(guardToken, "bob", map[string]any{"limit": 1, "token": first.next}); again.raw != second.raw {
		t.Errorf("after a restart, the second page is %s; want %s", again.raw, second.raw)
	}
}
