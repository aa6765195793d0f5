package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// listings searches the registry with an access token, "" for none.
func (w *town) listings(t *testing.T, session, query string) (status int, ids []string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, w.url+"/v1/registry/agents?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	if session != "" {
		req.Header.Set("Authorization", "Bearer "+session)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		Agents []struct {
			ID      string `json:"id"`
			Failure string `json:"failure"`
			Waiting string `json:"waiting_digest"`
		} `json:"agents"`
	}
	_ = json.Unmarshal(data, &found)
	ids = []string{}
	for _, a := range found.Agents {
		ids = append(ids, a.ID)
		if a.Failure+a.Waiting != "" {
			t.Errorf("a user is told what operators alone may know: %s", data)
		}
	}
	return r.StatusCode, ids
}

func (w *town) operatorToken() string {
	w.t.Helper()
	secret, err := os.ReadFile(filepath.Join(w.dir, "powerbox-data", "keys", "operator.secret"))
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(string(secret))
}

// stranger is an agent that the server does not protect, with a card that can change.
type stranger struct {
	url  string
	mu   sync.Mutex
	card string
}

func (s *stranger) says(card string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.card = card
}

func newStranger(t *testing.T, card string) *stranger {
	s := &stranger{card: card}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, s.card)
	}))
	t.Cleanup(srv.Close)
	s.url = srv.URL + "/.well-known/agent-card.json"
	return s
}

const strangersCard = `{"name":"Weather Desk","description":"Forecasts for ships","version":"1.0.0",
	"supportedInterfaces":[{"url":"https://weather.example.org/a2a","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
	"capabilities":{"streaming":STREAMING,"extensions":[{"uri":"urn:a2a:ext:authorization:v1","params":{"authorization_model":"ROLE","delegation_supported":true,
		"max_delegation_depth":2,"evidence_formats":["tlog-proof"],"compliance":["soc2"],"accepted_scopes":["weather.read"],"scope_grammar":"dotted"}}]},
	"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
	"skills":[{"id":"forecast","name":"Forecast","description":"Tells tomorrow's weather","tags":["sea"]}]}`

// Agents are found by what their cards declare, before any session with them, by
// those who may see them.
func TestCARD19_Registry(t *testing.T) {
	w := start(t, options{agent: "    authorization: {compliance: [iso27001]}\n"})
	weather := newStranger(t, strings.Replace(strangersCard, "STREAMING", "false", 1))
	var registered struct {
		ID     string `json:"id"`
		Digest string `json:"card_digest"`
	}
	if err := json.Unmarshal(w.operator(http.MethodPost, "/v1/registry/agents", map[string]any{"url": weather.url, "visible_to": []string{"user:alice"}}), &registered); err != nil || registered.ID != "weather-desk" {
		t.Fatal(registered, err)
	}
	everything := []string{"documents", "mail", "weather-desk"}
	for query, want := range map[string][]string{
		"": everything, "text=ships": {"weather-desk"}, "text=SHIPS&text=sea": {"weather-desk"}, "text=nothing+of+the+kind": {},
		"skill=forecast": {"weather-desk"}, "skill=send_mail": {"mail"}, "skill=send_mail&skill=forecast": {},
		"operation=" + url.QueryEscape(opRetrieve): {"documents"}, "feature=streaming": {"documents", "mail"},
		"version=1.0": everything, "version=0.3": {"documents", "mail"}, "version=2.0": {}, "binding=HTTP%2BJSON": {"documents", "mail"}, "binding=GRPC": {},
		"model=ROLE": {"weather-desk"}, "model=ROLE&model=CAPABILITY": everything, "model=ATTRIBUTE": {},
		"scope=weather.read": {"weather-desk"}, "scope=mail.send.send": {"mail"},
		"depth=2": everything, "depth=3": {"documents", "mail"}, "depth=16": {"documents", "mail"},
		"evidence=tlog-proof": everything, "evidence=ocsf": {"documents", "mail"}, "evidence=none+of+ours": {},
		"compliance=soc2": {"weather-desk"}, "compliance=iso27001": {"documents"}, "trust=HIGH": {"documents", "mail"}, // agents without a fault; of others nothing is known
	} {
		if status, got := w.listings(t, aliceToken, query); status != http.StatusOK || !slices.Equal(got, want) {
			t.Errorf("EXT-40 %s: %d %v; want %v", query, status, got, want)
		}
	}
	for query, want := range map[string]int{"colour=red": 400, "depth=17": 400, "depth=x": 400, "depth=1&depth=2": 400, "trust=HUGE": 400, strings.Repeat("text=a&", 65): 400} {
		if status, _ := w.listings(t, aliceToken, query); status != want {
			t.Errorf("%.40s: %d; want %d", query, status, want)
		}
	}

	// Anyone who may be granted nothing of an agent does not hear of it.
	if _, got := w.listings(t, bobToken, ""); !slices.Equal(got, []string{"documents"}) {
		t.Errorf("bob sees %v; want documents, of which he may be granted something", got)
	}
	if status, got := w.listings(t, "", ""); status != http.StatusUnauthorized || len(got) > 0 {
		t.Errorf("nobody sees %d %v", status, got)
	}
	for path, want := range map[string]int{"/weather-desk": 404, "/mail": 404, "/documents": 200} {
		req, _ := http.NewRequest(http.MethodGet, w.url+"/v1/registry/agents"+path, nil)
		req.Header.Set("Authorization", "Bearer "+bobToken)
		if r, err := http.DefaultClient.Do(req); err != nil || r.StatusCode != want {
			t.Errorf("bob asks for %s: %v %v; want %d", path, r, err, want)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		path := "/v1/registry/agents"
		if method == http.MethodDelete {
			path += "/weather-desk"
		}
		req, _ := http.NewRequest(method, w.url+path, strings.NewReader(`{"card":{}}`))
		req.Header.Set("Authorization", "Bearer "+aliceToken)
		if r, err := http.DefaultClient.Do(req); err != nil || r.StatusCode != http.StatusForbidden {
			t.Errorf("alice does %s: %v %v", method, r, err)
		}
	}
}

// A card that says something else waits: answers are about the one that was accepted
// until an operator has looked.
func TestATK53_ACardThatChangesWaits(t *testing.T) {
	w := start(t, options{})
	first := strings.Replace(strangersCard, "STREAMING", "false", 1)
	weather := newStranger(t, first)
	w.operator(http.MethodPost, "/v1/registry/agents", map[string]any{"url": weather.url, "id": "weather", "visible_to": []string{"*"}})
	type entry struct {
		Digest  string `json:"card_digest"`
		Waiting string `json:"waiting_digest"`
		Failure string `json:"failure"`
		Changed []struct{ Kind, Subject, Message string }
	}
	about := func(path string, body any) (e entry) {
		t.Helper()
		if err := json.Unmarshal(w.operator(http.MethodPost, "/v1/registry/agents/weather/"+path, body), &e); err != nil {
			t.Fatal(err)
		}
		return e
	}
	before := about("refresh", nil)
	if before.Waiting != "" || len(before.Changed) > 0 {
		t.Errorf("the same card waits: %+v", before)
	}
	weather.says(strings.Replace(strangersCard, "STREAMING", "true", 1))
	widened := about("refresh", nil)
	if widened.Digest != before.Digest || widened.Waiting == "" || !slices.ContainsFunc(widened.Changed, func(c struct{ Kind, Subject, Message string }) bool { return c.Kind == "widens" }) {
		t.Errorf("%+v; want the old card, and one that waits and widens", widened)
	}
	if _, got := w.listings(t, aliceToken, "feature=streaming&text=ships"); len(got) > 0 {
		t.Errorf("what nobody accepted is answered: %v", got)
	}
	weather.says("{no card")
	if broken := about("refresh", nil); broken.Failure == "" || broken.Digest != before.Digest {
		t.Errorf("%+v; want the old card, and what is wrong with the new one", broken)
	}
	weather.says(strings.Replace(strangersCard, "STREAMING", "true", 1))
	waiting := about("refresh", nil).Waiting
	if r := w.declined(t, "/v1/registry/agents/weather/accept", map[string]string{"card_digest": before.Digest}); r != http.StatusBadRequest {
		t.Errorf("another digest than the one that waits: %d", r)
	}
	if accepted := about("accept", map[string]string{"card_digest": waiting}); accepted.Digest != waiting || accepted.Waiting != "" {
		t.Errorf("%+v", accepted)
	}
	if _, got := w.listings(t, aliceToken, "feature=streaming&text=ships"); !slices.Equal(got, []string{"weather"}) {
		t.Errorf("after it was accepted: %v", got)
	}
	var done []string
	for _, r := range w.records("agent=powerbox") {
		done = append(done, r.Action)
	}
	if !slices.Contains(done, "registry.register") || !slices.Contains(done, "registry.accept") {
		t.Errorf("on record: %v", done)
	}
}

// declined makes an operator's call that is refused.
func (w *town) declined(t *testing.T, path string, body any) int {
	t.Helper()
	status, _ := w.declines(t, path, body)
	return status
}

// declines returns the refusal of a request: its status and text.
func (w *town) declines(t *testing.T, path string, body any) (int, string) {
	t.Helper()
	data, _ := json.Marshal(body)
	req, err := http.NewRequest(http.MethodPost, w.url+path, strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.operatorToken())
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	said, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(said)
}

// What cannot be listed is refused, with what would be right.
func TestCARD19_ListingsThatAreRefused(t *testing.T) {
	w := start(t, options{})
	card := json.RawMessage(strings.Replace(strangersCard, "STREAMING", "false", 1))
	for name, offer := range map[string]map[string]any{
		"neither":              {},
		"both":                 {"url": "https://a.example.org/card", "card": card},
		"ATK-15 a file":        {"url": "file:///etc/passwd"},
		"no card":              {"card": map[string]any{"name": 1}},
		"a protected agent":    {"card": card, "id": "documents"},
		"a bad name":           {"card": card, "id": "../x"},
		"a bad viewer":         {"card": card, "visible_to": []string{"everybody"}},
		"CARD-15 no signature": {"card": card, "keys": map[string]any{"keys": []any{map[string]string{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}}}},
		"an unknown member":    {"card": card, "colour": "red"},
	} {
		if status := w.declined(t, "/v1/registry/agents", offer); status != http.StatusBadRequest {
			t.Errorf("%s: %d", name, status)
		}
	}
	// By its address, and not since nothing is there.
	if status, said := w.declines(t, "/v1/registry/agents", map[string]any{"url": "http://169.254.169.254/latest/meta-data"}); status != http.StatusBadRequest || !strings.Contains(said, "169.254.169.254:80 is refused") {
		t.Errorf("ATK-15 a metadata URL: %d %s", status, said)
	}
	if _, got := w.listings(t, aliceToken, ""); !slices.Equal(got, []string{"documents", "mail"}) {
		t.Errorf("listed: %v", got)
	}
}
