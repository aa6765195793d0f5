package e2e

import (
	"maps"
	"strings"
	"testing"
)

// TestATK17_PushAddresses wants events posted to where they must not go, and
// with headers that are more than they say, in both forms that there are. It
// holds the right to push, so that nothing else is in the way.
func TestATK17_PushAddresses(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on, agent: "    push: {hosts: [\"*.example.org\", \"10.0.0.7\", localhost, \"127.0.0.1\", \"::1\", \"169.254.169.254\"]}\n    enforces: context"})
		alice := w.caller(aliceToken)
		held := alice.request("documents", map[string]any{
			"grants": []string{"documents:read"}, "purpose": "p", "push": true,
			"resourceQuery": map[string]any{"collection": "reports", "filter": map[string]any{"quarter": "2025-Q1"}},
		})[0]
		task, _ := alice.open(held)
		w.documents.forget()
		const crlf = "x\r\nHost: other"
		for _, c := range []struct {
			name string
			push map[string]any
			want string
		}{
			{"the cloud's credentials", map[string]any{"url": "http://169.254.169.254/latest/meta-data"}, "push_address"},
			{"this machine", map[string]any{"url": "https://127.0.0.1:8443/"}, "push_address"},
			{"this machine by name", map[string]any{"url": "https://localhost/"}, "push_address"},
			{"this machine in IPv6", map[string]any{"url": "https://[::1]/"}, "push_address"},
			{"a private network", map[string]any{"url": "https://10.0.0.7/"}, "push_address"},
			{"an address in decimal", map[string]any{"url": "https://2130706433/"}, "push_address"},
			{"a host that is not named", map[string]any{"url": "https://attacker.example/"}, "push_address"},
			{"a host that ends alike", map[string]any{"url": "https://notexample.org/"}, "push_address"},
			{"a user in front", map[string]any{"url": "https://a.example.org@attacker.example/"}, "push_address"},
			{"another scheme", map[string]any{"url": "file:///etc/passwd"}, "push_address"},
			{"a line break in the token", map[string]any{"url": "https://a.example.org/", "token": crlf}, "push_address"},
			{"a line break in the URL", map[string]any{"url": "https://a.example.org/" + crlf}, "push_address"},
			{"a line break in credentials", map[string]any{"url": "https://a.example.org/", "authentication": map[string]any{"credentials": crlf}}, "push_address"},
		} {
			if c.push["authentication"] != nil && on.version == "0.3" && on.binding != overREST {
				c.push["authentication"] = map[string]any{"schemes": []any{"Bearer"}, "credentials": crlf}
			}
			if strings.Contains(c.name, "line break") {
				// It is no call that could be decided about.
				for _, body := range [][]byte{
					rpc("CreateTaskPushNotificationConfig", merged(map[string]any{"taskId": task}, c.push)),
					parted("SendMessage", []any{skillPart("search_documents", map[string]any{})}, nil, map[string]any{
						"configuration": map[string]any{"taskPushNotificationConfig": c.push},
					}),
				} {
					a := alice.send("documents", body)
					if w.refused(t, a, c.want); a.Error == nil || !strings.Contains(a.Error.Message, "control character") {
						t.Errorf("ATK-17 %s: %s", c.name, a.Raw)
					}
				}
				continue
			}
			args := map[string]any{"task": task}
			create := merged(map[string]any{"taskId": task}, c.push)
			w.repel(t,
				attack{"ATK-17 " + c.name, c.want, func() answer {
					return alice.present("documents", rpc("CreateTaskPushNotificationConfig", create), proven{chain: []string{held.Token}, operation: "a2a.push", arguments: args})
				}},
				attack{"ATK-17 " + c.name + ", inline", c.want, func() answer {
					body := parted("SendMessage", []any{skillPart("search_documents", map[string]any{})}, nil, map[string]any{
						"configuration": map[string]any{"taskPushNotificationConfig": c.push},
					})
					return alice.present("documents", body, proven{chain: []string{held.Token}, operation: opSearch})
				}},
			)
		}
	})
}

func merged(all ...map[string]any) map[string]any {
	out := map[string]any{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// TestATK17_AddressesThatAreAdmitted posts to this machine, where the operator
// said so, and no more often than a task may.
func TestATK17_AddressesThatAreAdmitted(t *testing.T) {
	everywhere(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on, agent: "    push: {private: true, hosts: [\"127.0.0.1\"]}\n    enforces: context"})
		alice := w.caller(aliceToken)
		held := alice.request("documents", map[string]any{
			"grants": []string{"documents:read"}, "purpose": "p", "push": true,
			"resourceQuery": map[string]any{"collection": "reports", "filter": map[string]any{"quarter": "2025-Q1"}},
		})[0]
		task, _ := alice.open(held)
		w.documents.forget()
		create := func() answer {
			return alice.present("documents", rpc("CreateTaskPushNotificationConfig", map[string]any{"taskId": task, "url": "http://127.0.0.1:9/hook"}),
				proven{chain: []string{held.Token}, operation: "a2a.push", arguments: map[string]any{"task": task}})
		}
		w.repel(t, attack{"ATK-17 a host that is not named", "push_address", func() answer {
			return alice.present("documents", rpc("CreateTaskPushNotificationConfig", map[string]any{"taskId": task, "url": "http://127.0.0.2:9/hook"}),
				proven{chain: []string{held.Token}, operation: "a2a.push", arguments: map[string]any{"task": task}})
		}})
		for range 16 {
			if a := create(); a.reason() == "push_address" {
				t.Fatalf("ATK-17 %s", a.Raw)
			}
		}
		if n := len(w.documents.got()); n != 16 {
			t.Errorf("%d configurations reached the agent; want 16", n)
		}
		w.documents.forget()
		if a := create(); a.reason() != "push_address" || len(w.documents.got()) > 0 || !strings.Contains(a.Error.Message, "16") {
			t.Errorf("ATK-17 one more: %s", a.Raw)
		}
	})
}
