package e2e

import (
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// TestEXT15_StatusList is a verifier that is not ours: it reads the signed Token
// Status List of an agent, with a JOSE library, zlib and the draft.
func TestEXT15_StatusList(t *testing.T) {
	w := start(t, options{})
	alice := w.caller(aliceToken)
	type place struct {
		Status struct {
			List struct {
				Index int    `json:"idx"`
				URI   string `json:"uri"`
			} `json:"status_list"`
		} `json:"status"`
	}
	at := func(c granted) (p place) {
		t.Helper()
		if err := json.Unmarshal([]byte(w.run("feed", "status", c.ID, "--output", "json")), &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	var keys jose.JSONWebKeySet
	if err := json.Unmarshal(w.get(w.agentURL("documents")+"/.well-known/jwks.json"), &keys); err != nil {
		t.Fatal(err)
	}
	status := func(p place) byte {
		t.Helper()
		response, err := http.Get(p.Status.List.URI)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		compact, err := io.ReadAll(response.Body)
		if err != nil || response.Header.Get("Content-Type") != "application/statuslist+jwt" {
			t.Fatalf("%s %v: %s", response.Status, err, compact)
		}
		signed, err := jose.ParseSignedCompact(string(compact), []jose.SignatureAlgorithm{jose.EdDSA, jose.ES256})
		if err != nil {
			t.Fatal(err)
		}
		if typ, _ := signed.Signatures[0].Protected.ExtraHeaders["typ"].(string); typ != "statuslist+jwt" {
			t.Errorf("typ %q", typ)
		}
		payload, err := signed.Verify(keys)
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			Subject string `json:"sub"`
			Made    int64  `json:"iat"`
			Ends    int64  `json:"exp"`
			TTL     int64  `json:"ttl"`
			List    struct {
				Bits int    `json:"bits"`
				Text string `json:"lst"`
			} `json:"status_list"`
		}
		if err := json.Unmarshal(payload, &list); err != nil {
			t.Fatal(err)
		}
		now := time.Now().Unix()
		if list.Subject != p.Status.List.URI || list.TTL < 1 || list.TTL > 30 || list.Ends > list.Made+30 || list.Made > now+1 || list.Ends < now {
			t.Errorf("the list says %s", payload)
		}
		deflated, err := base64.RawURLEncoding.DecodeString(list.List.Text)
		if err != nil {
			t.Fatal(err)
		}
		z, err := zlib.NewReader(strings.NewReader(string(deflated)))
		if err != nil {
			t.Fatal(err)
		}
		packed, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		each := 8 / list.List.Bits
		return packed[p.Status.List.Index/each] >> (p.Status.List.Index % each * list.List.Bits) & (1<<list.List.Bits - 1)
	}
	one, two, three := alice.reports(), alice.reports(), alice.reports()
	child := capabilities(t, alice.attenuate(one.ID, map[string]any{"operations": []string{"search"}}))[0]
	places := map[string]place{}
	taken := map[int]bool{}
	for _, c := range []granted{one, two, three, child} {
		places[c.ID] = at(c)
		taken[places[c.ID].Status.List.Index] = true
		if again := at(c); again != places[c.ID] {
			t.Errorf("%s has two places: %+v %+v", c.ID, again, places[c.ID])
		}
	}
	if len(taken) != 4 || taken[0] && taken[1] && taken[2] {
		t.Errorf("the places are %v", taken)
	}
	want := func(what string, all map[string]byte) {
		t.Helper()
		for id, want := range all {
			if got := status(places[id]); got != want {
				t.Errorf("%s: %s has status %d; want %d", what, id, got, want)
			}
		}
	}
	want("at first", map[string]byte{one.ID: 0, child.ID: 0, two.ID: 0, three.ID: 0})
	w.run("revoke", one.ID)
	w.run("freeze", two.ID, "--reason", "r")
	want("revoked and frozen", map[string]byte{one.ID: 1, child.ID: 1, two.ID: 2, three.ID: 0})
	w.run("thaw", two.ID, "--reason", "r")
	want("thawed", map[string]byte{one.ID: 1, two.ID: 0})
	w.run("revoke", "--for", "user:alice")
	want("in bulk", map[string]byte{one.ID: 1, child.ID: 1, two.ID: 1, three.ID: 1})
	if _, talk, code := w.exits("feed", "status", "cap_unknown"); code == 0 {
		t.Errorf("an unknown capability has a place: %s", talk)
	}
	for path, want := range map[string]int{"/v1/status-lists/nobody": http.StatusNotFound, "/v1/capabilities/" + one.ID + "/status": http.StatusUnauthorized} {
		response, err := http.Post(w.url+path, "application/json", nil)
		if strings.HasPrefix(path, "/v1/status") {
			response, err = http.Get(w.url + path)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
}
