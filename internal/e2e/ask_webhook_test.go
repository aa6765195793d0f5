package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// listener is a service that is told of questions.
type listener struct {
	*httptest.Server
	mu   sync.Mutex
	told map[string][]map[string]any // by path
	bad  []string
	fail int // how many calls it refuses first
}

const webhookSecret = "a secret of webhooks"

func newListener(t *testing.T) *listener {
	t.Helper()
	l := &listener{told: map[string][]map[string]any{}}
	l.Server = httptest.NewServer(l)
	t.Cleanup(l.Close)
	return l
}

func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	mac := hmac.New(sha256.New, []byte(webhookSecret))
	fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp"), body)
	l.mu.Lock()
	defer l.mu.Unlock()
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.Header.Get("Webhook-Signature") != want {
		l.bad = append(l.bad, r.Header.Get("Webhook-Signature"))
	}
	if l.fail > 0 {
		l.fail--
		http.Error(w, "later", http.StatusServiceUnavailable)
		return
	}
	var message map[string]any
	if json.Unmarshal(body, &message) != nil {
		l.bad = append(l.bad, string(body))
	}
	l.told[r.URL.Path] = append(l.told[r.URL.Path], message)
}

func (l *listener) got(path string) []map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]map[string]any{}, l.told[path]...)
}

// TestATK48_PeopleAreTold has webhooks told, signed, of what waits, of how it ended
// and of a caller that is refused again and again; in the forms of chat and mail,
// without arguments, and with nothing of the agent's words that a chat would act on
// (ATK-49).
func TestATK48_PeopleAreTold(t *testing.T) {
	l := newListener(t)
	l.fail = 1
	hooks := ""
	for _, template := range []string{"json", "chat", "mail"} {
		hooks += fmt.Sprintf("    - {name: %s, url: %s/%s, secret: %s, template: %s, private: true}\n", template, l.URL, template, webhookSecret, template)
	}
	w := start(t, options{mail: ", approval: true", extra: "approvals:\n  webhooks:\n" + hooks + "    - {name: never, url: " + l.URL + "/alerts, secret: " + webhookSecret + ", events: [alert], private: true}\n"})
	alice := w.caller(aliceToken)
	held := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "Pay <https://evil.example|here> @channel *now*"})[0]
	for n := range 3 {
		task := heldIn(t, alice.mailsUnder(held, "bob@example.org"))
		for _, path := range []string{"/json", "/chat", "/mail"} {
			w.soon("ATK-48 "+path+" to be told", func() bool { return len(l.got(path)) > 2*n })
		}
		w.answers("alice", task.asked(), map[string]any{"deny": true})
		w.soon("ATK-48 the end to be told", func() bool {
			return len(l.got("/json")) > 2*n+1 && len(l.got("/chat")) > 2*n+1 && len(l.got("/mail")) > 2*n+1
		})
	}
	w.soon("ATK-48 the alert to be told", func() bool { return len(l.got("/alerts")) == 1 })
	if len(l.bad) > 0 {
		t.Errorf("ATK-48 messages whose signature does not hold: %q", l.bad)
	}
	first := l.got("/json")[0]
	if first["event"] != "asked" || first["queue"] != "confirmation" || !strings.HasPrefix(first["url"].(string), w.url+"/approve/ask_") || fmt.Sprint(first["to"]) != "[user:alice]" || fmt.Sprint(first["asks"]) != "[mail:send/send]" {
		t.Errorf("ATK-48 the first message: %v", first)
	}
	if mail := l.got("/mail")[0]; fmt.Sprint(mail["to"]) != "[user:alice]" || mail["subject"] == "" {
		t.Errorf("ATK-48 the mail: %v", mail)
	}
	for _, path := range []string{"/json", "/chat", "/mail"} {
		said, _ := json.Marshal(l.got(path))
		for _, never := range []string{"bob@example.org", "The figures", "evil.example|", "<http", "@channel", "*now*", "https://evil"} {
			if strings.Contains(string(said), never) {
				t.Errorf("ATK-49 %s is told %q: %s", path, never, said)
			}
		}
	}
}
