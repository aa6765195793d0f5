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
	gone bool
	ids  []string
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
	l.ids = append(l.ids, r.Header.Get("Webhook-Id"))
	if l.gone {
		http.Error(w, "never again", http.StatusGone)
		return
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

// TestATK48_MessagesAreNotLost kills the server while a webhook does not accept a
// message: after the restart the server sends the same message, under the same id.
// Once a question is over, no message says that it is open. Operators see rejected
// messages, and can have them sent again.
func TestATK48_MessagesAreNotLost(t *testing.T) {
	l := newListener(t)
	l.fail = 1 << 20
	w := start(t, options{mail: ", approval: true", extra: "approvals:\n  webhooks:\n    - {name: chat, url: " + l.URL + "/chat, secret: " + webhookSecret + ", private: true}\n"})
	alice := w.caller(aliceToken)
	held := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "p"})[0]
	tried := func() []string {
		l.mu.Lock()
		defer l.mu.Unlock()
		return append([]string{}, l.ids...)
	}
	refuses := func(n int, gone bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fail, l.gone = n, gone
	}
	answered := heldIn(t, alice.mailsUnder(held, "bob@example.org")).asked()
	open := heldIn(t, alice.mailsUnder(held, "bob@example.org")).asked()
	w.soon("ATK-48 both to be tried", func() bool {
		all := fmt.Sprint(tried())
		return strings.Contains(all, answered) && strings.Contains(all, open)
	})
	w.answers("alice", answered, map[string]any{"deny": true})
	killed(t, w.process)
	w.boot()
	refuses(0, false)
	w.soon("ATK-48 what was not told to be told", func() bool { return len(l.got("/chat")) == 2 })
	told := map[string]int{}
	for _, m := range l.got("/chat") {
		told[fmt.Sprint(m["event"], " ", m["id"], " ", m["status"])]++
	}
	if told["asked "+open+" pending"] != 1 || told["answered "+answered+" denied"] != 1 {
		t.Errorf("ATK-48 the webhook is told %v", told)
	}
	if ids := strings.Join(tried(), " "); strings.Count(ids, "asked_"+open+".chat") < 2 {
		t.Errorf("ATK-48 the same message has another id: %s", ids)
	}
	refuses(0, true)
	w.answers("alice", open, map[string]any{"deny": true})
	dead := "answered_" + open + ".chat"
	w.soon("ATK-48 what is not wanted to be given up", func() bool { return strings.Contains(w.run("approval", "webhooks"), dead) })
	if shown := w.run("approval", "webhooks"); !strings.Contains(shown, "410") || !strings.Contains(shown, "chat") {
		t.Errorf("ATK-48 operators are shown\n%s", shown)
	}
	refuses(0, false)
	w.run("approval", "webhooks", "--again", dead)
	w.soon("ATK-48 it to be told", func() bool { return len(l.got("/chat")) == 3 })
	w.soon("ATK-48 nothing to be left", func() bool { return !strings.Contains(w.run("approval", "webhooks"), dead) })
	if len(l.bad) > 0 {
		t.Errorf("ATK-48 messages whose signature does not hold: %q", l.bad)
	}
}
