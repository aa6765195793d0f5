package e2e

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
)

// TestATK35_TokensSentByMistakeApart is the same at a remote gateway: it knows by their
// looks what enrols a gateway or a host, and by what the server tells it the tokens of
// the operator and of guards, under whatever scheme they come.
func TestATK35_TokensSentByMistakeApart(t *testing.T) {
	const town = "0123456789abcdef0123456789abcdef-town"
	w, _ := startRemote(t, 1, options{
		mode: "observe", callers: "  guards:\n    - {name: town, token_file: town.token, agents: [mail]}\n", files: map[string]string{"town.token": town + "\n"},
	})
	for _, token := range []string{"pbgw1_x.y", "enr_x", w.operatorToken(), town} {
		for _, value := range []string{
			"Bearer " + token, "DPoP " + token, token, "Basic " + base64.StdEncoding.EncodeToString([]byte("operator:"+token)), "basic  " + base64.StdEncoding.EncodeToString([]byte(token+":")),
			"Basic\t" + base64.StdEncoding.EncodeToString([]byte("operator:"+token)), "Basic\xa0" + base64.StdEncoding.EncodeToString([]byte("operator:"+token)), "Bearer\xa0" + token,
			"Bearer " + token + ",", "Bearer \"" + token + "\"", "Bearer " + token + " x", "Token token=" + token, "Basic " + base64.URLEncoding.EncodeToString([]byte("??>>:"+token)),
			"Basic " + base64.StdEncoding.EncodeToString([]byte("x:y:"+token+"\n")), "Bearer " + strings.Repeat("a,b ", 200) + ", " + token,
		} {
			w.documents.forget()
			allowed(t, w.post(w.agentURL("documents"), data("search_documents", map[string]any{}), http.Header{"Authorization": {value}}))
			if got := w.documents.got(); len(got) != 1 || got[0].header.Get("Authorization") != "" {
				t.Errorf("ATK-35 %s: the agent got %v", value, got)
			}
		}
	}
	for _, value := range []string{"Bearer " + town + "x", "Basic " + base64.StdEncoding.EncodeToString([]byte("town:secret"))} {
		w.documents.forget()
		allowed(t, w.post(w.agentURL("documents"), data("search_documents", map[string]any{}), http.Header{"Authorization": {value}}))
		if got := w.documents.got(); len(got) != 1 || got[0].header.Get("Authorization") != value {
			t.Errorf("ATK-35 %s is the agent's, who got %v", value, got)
		}
	}
}

// TestATK35_TokensSentByMistake shows tokens that the server takes for itself where
// agents are called: anyone who has the wrong address is told, and the agent gets
// none of them, in observe either.
func TestATK35_TokensSentByMistake(t *testing.T) {
	const edge, town = "0123456789abcdef0123456789abcdef-edge", "0123456789abcdef0123456789abcdef-town"
	overTools(t, func(t *testing.T, on wire) {
		for _, mode := range []string{"prefer", "observe"} {
			w := start(t, options{
				on: on, mode: mode, issuer: "  feed: {relays: [{name: edge, token_file: edge.token}]}\n",
				callers: "  guards:\n    - {name: town, token_file: town.token, agents: [mail]}\n",
				files:   map[string]string{"edge.token": edge + "\n", "town.token": town + "\n"},
			})
			body := data("search_documents", map[string]any{})
			for name, token := range map[string]string{"operator": w.operatorToken(), "gateway": "pbgw1_x.y", "relay": edge, "guard": town} {
				for _, value := range []string{"Bearer " + token, "bearer  " + token, "DPoP " + token, "Token\t" + token, token} {
					w.documents.forget()
					a := w.post(w.agentURL("documents"), body, http.Header{"Authorization": {value}})
					got := w.documents.got()
					if mode == "observe" {
						allowed(t, a)
					} else if w.refused(t, a, "unauthenticated"); strings.Contains(string(a.Raw), token) {
						t.Errorf("ATK-35 the answer says %s", a.Raw)
					}
					for _, r := range got {
						if v := r.header.Get("Authorization"); v != "" {
							t.Errorf("ATK-35 %s: the agent got the token of the %s: %s", mode, name, v)
						}
					}
				}
			}
			// Anything that is not the server's own is the agent's.
			w.documents.forget()
			allowed(t, w.post(w.agentURL("documents"), body, http.Header{"Authorization": {"Bearer " + edge + "x"}}))
			if got := w.documents.got(); len(got) != 1 || got[0].header.Get("Authorization") != "Bearer "+edge+"x" {
				t.Errorf("ATK-35 %s: the agent got %v", mode, got)
			}
			if strings.Contains(w.log.String(), edge) {
				t.Error("ATK-35 a token is in the log")
			}
		}
	})
}

// TestATK35_SessionsInOtherForms shows a session that is good here in forms that we do
// not read and agents may: none of them reaches an agent, and none admits a caller.
func TestATK35_SessionsInOtherForms(t *testing.T) {
	for _, mode := range []string{"prefer", "observe"} {
		w := start(t, options{mode: mode})
		body := data("search_documents", map[string]any{})
		naming := strings.Join([]string{segment(`{"alg":"none"}`), segment(`{"aud":["` + w.agentURL("documents") + `"]}`), "c2ln"}, ".")
		for _, session := range []string{aliceToken, naming} {
			for _, value := range []string{
				"Bearer\t" + session, "Bearer\xa0" + session, "Token " + session, session, "Bearer x " + session, "Bearer x," + session, "Token token=\"" + session + "\"",
				"Basic " + base64.StdEncoding.EncodeToString([]byte("oauth2:"+session)),
			} {
				w.documents.forget()
				a := w.post(w.agentURL("documents"), body, http.Header{"Authorization": {value}})
				if mode == "observe" {
					allowed(t, a)
				} else {
					w.refused(t, a, "unauthenticated")
				}
				for _, r := range w.documents.got() {
					if r.header["Authorization"] != nil {
						t.Errorf("ATK-35 %s: the agent got %q", mode, r.header["Authorization"])
					}
				}
			}
		}
		// A scope token is ours, too, and so is what looks like one.
		for _, value := range []string{"A2A-Capability\tabc", "a2a-capability,abc", "A2A-CAPABILITY"} {
			w.documents.forget()
			a := w.post(w.agentURL("documents"), body, http.Header{"Authorization": {value}})
			if mode == "observe" {
				allowed(t, a)
			} else if a.Error == nil {
				t.Errorf("ATK-35 %q is passed over", value)
			}
			for _, r := range w.documents.got() {
				if r.header["Authorization"] != nil {
					t.Errorf("ATK-35 %s: the agent got %q", mode, r.header["Authorization"])
				}
			}
		}
		// The agent's own credential reaches it unchanged.
		foreign := strings.Join([]string{segment(`{"alg":"none"}`), segment(`{"aud":"the-agent"}`), "c2ln"}, ".")
		for _, value := range []string{"Token token=\"opaque\"", "Bearer\t" + foreign, "Digest username=\"alice\", realm=\"x\"", "Basic " + base64.StdEncoding.EncodeToString([]byte("alice:secret"))} {
			w.documents.forget()
			allowed(t, w.post(w.agentURL("documents"), body, http.Header{"Authorization": {value}}))
			if got := w.documents.got(); len(got) != 1 || got[0].header.Get("Authorization") != value {
				t.Errorf("ATK-35 %s: %q arrived as %v", mode, value, got)
			}
		}
	}
}

// segment is a part of a JWT.
func segment(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
