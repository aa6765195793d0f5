package agentauth_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder/agentauth"
	wire "github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

const (
	executeAt  = "POST " + issuer + "/capability/execute"
	describeAt = "GET " + issuer + "/capability/describe"
	jobAt      = "GET " + issuer + "/jobs/1"
	pendingJob = `{"status": "pending", "status_url": "https://bank.example/jobs/1"}`
)

var pay = agentauth.Execution{Capability: "pay", Arguments: json.RawMessage(`{"amount": 1}`)}

func TestExecuteSync(t *testing.T) {
	w, c := newWorld(t)
	a := pays(t, c, "")
	w.answers[executeAt] = says(200, `{"data": null}`, "Powerbox-Decision", "rec_1")
	out, err := c.Execute(t.Context(), a.ID, pay, nil)
	if err != nil || string(out.Data) != "null" || out.Decision != "rec_1" {
		t.Errorf("%+v, %v", out, err)
	}
	got := tokenOf(t, w.to(executeAt)[0], wire.TypeAgent)
	if got.Audience != issuer+"/capability/execute" || got.Subject != a.ID || !slices.Equal(got.Capabilities, []string{"pay"}) {
		t.Errorf("%+v", got)
	}
}

// TestAAPCL8_EveryPlaceHasItsOwnAudience: a capability at another service is called
// there, with a token that is good nowhere else.
func TestAAPCL8_EveryPlaceHasItsOwnAudience(t *testing.T) {
	w, c := newWorld(t)
	a := pays(t, c, "")
	w.answers[describeAt] = says(200, `{"name": "pay", "description": "", "location": "https://api.example/do"}`)
	w.answers["POST https://api.example/do"] = says(200, `{"data": 1}`)
	if _, err := c.Execute(t.Context(), a.ID, pay, nil); err != nil {
		t.Fatal(err)
	}
	if got := tokenOf(t, w.to("POST https://api.example/do")[0], wire.TypeAgent); got.Audience != "https://api.example/do" {
		t.Errorf("%+v", got)
	}
	if got := tokenOf(t, w.to(describeAt)[0], wire.TypeAgent); got.Audience != issuer {
		t.Errorf("%+v", got)
	}
	seen := map[string]bool{}
	for _, r := range w.asked {
		if h := r.Header.Get("Authorization"); h != "" && seen[h] {
			t.Errorf("%s %s: a token that was shown before", r.Method, r.URL)
		} else {
			seen[h] = true
		}
	}
}

func TestAAPCL7_PlacesThatNothingIsSentTo(t *testing.T) {
	for name, test := range map[string]struct{ location, status string }{
		"a location without TLS":        {"http://api.example/do", ""},
		"a location on the client":      {"http://localhost:1/do", ""},
		"a location with a login":       {"https://u@api.example/do", ""},
		"a job at another origin":       {"", "https://evil.example/jobs/1"},
		"a job at another port":         {"", "https://bank.example:444/jobs/1"},
		"a job without TLS":             {"", "http://bank.example/jobs/1"},
		"a job with a login":            {"", "https://u@bank.example/jobs/1"},
		"a job whose URL is a path":     {"", "/jobs/1"},
		"a job at a part of the domain": {"", "https://bank.example.evil.example/jobs/1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, c := newWorld(t)
				a := pays(t, c, "")
				if test.location != "" {
					w.answers[describeAt] = says(200, `{"name": "pay", "description": "", "location": "`+test.location+`"}`)
				} else {
					w.answers[executeAt] = says(202, `{"status": "pending", "status_url": "`+test.status+`"}`)
				}
				before := len(w.asked)
				_, err := c.Execute(t.Context(), a.ID, pay, nil)
				if !errors.Is(err, agentauth.ErrAddress) {
					t.Errorf("%v", err)
				}
				for _, r := range w.asked[before:] {
					if !strings.HasPrefix(r.URL.String(), issuer+"/capability/") {
						t.Errorf("%s was asked", r.URL)
					}
				}
			})
		})
	}
}

// TestAAPCL7_WhereAPersonIsSent: no page without TLS, on this machine or with a login
// in its address is shown to a person as the provider's.
func TestAAPCL7_WhereAPersonIsSent(t *testing.T) {
	for name, test := range map[string]struct {
		page, complete string
		good           bool
	}{
		"as it should be":           {"https://bank.example/approve", "https://bank.example/approve?code=AB-CD#top", true},
		"a page without TLS":        {"http://phish.example/approve", "", false},
		"a page on this machine":    {"http://127.0.0.1:1/approve", "", false},
		"a page with a login":       {"https://bank.example@phish.example/approve", "", false},
		"a page that is a script":   {"javascript:alert(1)", "", false},
		"one with the code, so":     {"https://bank.example/approve", "http://phish.example/approve", false},
		"one with the code, a path": {"https://bank.example/approve", "/approve", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, c := newWorld(t)
				var shown []agentauth.Approval
				c.Approve = func(_ string, a agentauth.Approval) { shown = append(shown, a) }
				said := strings.Replace(waiting, `"verification_uri": "https://bank.example/approve"`, fmt.Sprintf(`"verification_uri": %q, "verification_uri_complete": %q`, test.page, test.complete), 1)
				w.answers["POST "+issuer+"/agent/register"] = says(200, said)
				with := connection()
				with.NoWait = true
				_, err := c.Connect(t.Context(), issuer, with)
				if test.good == errors.Is(err, agentauth.ErrAddress) || test.good != (len(shown) == 1) {
					t.Errorf("%v, shown %v", err, shown)
				}
			})
		})
	}
}

// TestAAPCL4_AMovedLocation: an execution at a default location that is gone is sent to
// where the provider's document says that it is now, and a job that is gone is not
// begun again.
func TestAAPCL4_AMovedLocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t)
		a := pays(t, c, "")
		w.answers[executeAt] = says(404, `{"error": "not_found"}`)
		if _, err := c.Execute(t.Context(), a.ID, pay, nil); err == nil || len(w.to(executeAt)) != 1 {
			t.Errorf("at a document that says the same: %v, sent %d times", err, len(w.to(executeAt)))
		}
		w.answers[discovery] = says(200, document(t, map[string]any{"default_location": issuer + "/v2/execute"}))
		w.answers["POST "+issuer+"/v2/execute"] = says(200, `{"data": {"paid": true}}`)
		if _, err := c.Execute(t.Context(), a.ID, pay, nil); err != nil || len(w.to("POST "+issuer+"/v2/execute")) != 1 {
			t.Errorf("moved: %v", err)
		}
		w.answers["POST "+issuer+"/v2/execute"] = says(202, `{"status": "pending", "status_url": "`+issuer+`/jobs/1"}`)
		w.answers["GET "+issuer+"/jobs/1"] = says(404, `{"error": "not_found"}`)
		w.answers[discovery] = says(200, document(t, map[string]any{"default_location": issuer + "/v3/execute"}))
		if _, err := c.Execute(t.Context(), a.ID, pay, nil); err == nil || len(w.to("POST "+issuer+"/v3/execute")) != 0 {
			t.Errorf("a job that is gone: %v, begun again %d times", err, len(w.to("POST "+issuer+"/v3/execute")))
		}
	})
}

// TestAAPCL7_RedirectsAreNotFollowed, so that no token goes elsewhere.
func TestAAPCL7_RedirectsAreNotFollowed(t *testing.T) {
	w, c := newWorld(t)
	a := pays(t, c, "")
	w.answers[executeAt] = says(307, "", "Location", "https://bank.example/elsewhere")
	if _, err := c.Execute(t.Context(), a.ID, pay, nil); err == nil || len(w.to("POST https://bank.example/elsewhere")) != 0 {
		t.Errorf("%v", err)
	}
}

// TestAAPE3_Jobs are asked about ever later, each time with its own token
// (AAP-CL5, AAP-CL6).
func TestAAPE3_Jobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t)
		a := pays(t, c, "")
		w.answers[executeAt] = says(202, pendingJob)
		w.answers[jobAt] = inTurn(says(200, `{"status": "pending"}`), says(200, pendingJob), says(200, `{"status": "pending"}`, "Retry-After", "20"),
			says(200, `{"status": "completed", "result": {"n": 1}}`))
		began := now()
		out, err := c.Execute(t.Context(), a.ID, pay, nil)
		if err != nil || string(out.Data) != `{"n": 1}` {
			t.Fatalf("%s, %v", out.Data, err)
		}
		if took := now().Sub(began); took != (1+2+4+20)*time.Second {
			t.Errorf("it took %s", took)
		}
		seen := map[string]bool{}
		for _, r := range slices.Concat(w.to(executeAt), w.to(jobAt)) {
			got := tokenOf(t, r, wire.TypeAgent)
			if seen[got.ID] {
				t.Error("a token was shown twice")
			}
			seen[got.ID] = true
			if age := got.Expires.Sub(got.IssuedAt); age > time.Minute || got.Audience != issuer+"/capability/execute" {
				t.Errorf("%+v", got)
			}
		}
		if len(seen) != 5 {
			t.Errorf("%d tokens", len(seen))
		}
	})
}

func TestJobsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t)
		a := pays(t, c, "")
		w.answers[executeAt] = says(202, pendingJob)
		w.answers[jobAt] = says(200, `{"status": "failed", "error": {"error": "limit_exceeded", "message": "not today"}}`)
		var e *agentauth.Error
		if _, err := c.Execute(t.Context(), a.ID, pay, nil); !errors.As(err, &e) || e.Code != "limit_exceeded" {
			t.Errorf("%v", err)
		}
	})
}

// TestAnswersThatAreNone have two of the forms, or none.
func TestAnswersThatAreNone(t *testing.T) {
	for _, body := range []string{
		`{}`, `[]`, `{"data": 1, "status": "completed", "result": 1}`, `{"status": "completed"}`, `{"status": "failed"}`, `{"status": "done", "result": 1}`,
		`{"status": "pending", "status_url": "https://bank.example/jobs/1", "result": 1}`, `{"status": "pending"}`, `{"data": 1, "data": 2}`, `{"Data": 1}`, `no JSON`,
	} {
		w, c := newWorld(t)
		a := pays(t, c, "")
		w.answers[executeAt] = says(200, body)
		if _, err := c.Execute(t.Context(), a.ID, pay, nil); err == nil {
			t.Errorf("%s was taken", body)
		}
	}
}

// TestExecutionsAreNotRepeated, but where the service refused to look at them.
func TestExecutionsAreNotRepeated(t *testing.T) {
	for name, test := range map[string]struct {
		first http.HandlerFunc
		want  int
	}{
		"it did not answer":           {says(503, ""), 1},
		"it broke":                    {says(500, `{"error": "internal_error"}`), 1},
		"there were too many":         {says(429, `{"error": "rate_limited"}`, "Retry-After", "7"), 2},
		"there will be for an hour":   {says(429, `{"error": "rate_limited"}`, "Retry-After", "3600"), 1},
		"there were, and a date says": {says(429, ``, "Retry-After", "Sat, 01 Jan 2000 00:00:09 GMT"), 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, c := newWorld(t)
				a := pays(t, c, "")
				w.answers[executeAt] = inTurn(test.first, says(200, `{"data": 1}`))
				began := now()
				_, err := c.Execute(t.Context(), a.ID, pay, nil)
				if got := len(w.to(executeAt)); got != test.want || (err == nil) != (test.want == 2) {
					t.Errorf("sent %d times, %v", got, err)
				}
				if took := now().Sub(began); test.want == 2 && took < 7*time.Second {
					t.Errorf("sent again after %s", took)
				}
			})
		})
	}
}

func TestAAPCL10_CapabilitiesAreRememberedByIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t)
		a := pays(t, c, "")
		look := func(v agentauth.View) {
			t.Helper()
			if _, err := c.Describe(t.Context(), issuer, "pay", v); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			look(agentauth.View{Agent: a.ID})
			look(agentauth.View{})
			look(agentauth.View{Anonymous: true})
		}
		asked := w.to(describeAt)
		if len(asked) != 3 || asked[2].Header.Get("Authorization") != "" {
			t.Fatalf("asked %d times", len(asked))
		}
		tokenOf(t, asked[0], wire.TypeAgent)
		tokenOf(t, asked[1], wire.TypeHost)
		<-time.NewTimer(6 * time.Minute).C
		look(agentauth.View{Agent: a.ID})
		if got := len(w.to(describeAt)); got != 4 {
			t.Errorf("after six minutes asked %d times", got)
		}
		// What the provider refuses as unknown or malformed is out of date here.
		for i, code := range []string{"capability_not_found", "invalid_request"} {
			w.answers[executeAt] = says(400, `{"error": "`+code+`"}`)
			if _, err := c.Execute(t.Context(), a.ID, pay, nil); err == nil {
				t.Fatal("no error")
			}
			look(agentauth.View{Agent: a.ID})
			if got := len(w.to(describeAt)); got != 5+i {
				t.Errorf("after %s asked %d times", code, got)
			}
		}
		w.answers[executeAt] = says(403, `{"error": "capability_not_granted"}`)
		if _, err := c.Execute(t.Context(), a.ID, pay, nil); !errors.Is(err, powerbox.ErrDenied) || len(w.to(describeAt)) != 6 {
			t.Errorf("%v, asked %d times", err, len(w.to(describeAt)))
		}
	})
}

func TestAAPCL10_AsLongAsTheProviderSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t)
		w.answers["GET "+issuer+"/capability/list"] = inTurn(
			says(200, `{"capabilities": [{"name": "pay"}], "has_more": true, "next_cursor": "2"}`, "Cache-Control", "no-store"),
			says(200, `{"capabilities": [{"name": "see"}], "has_more": false, "next_cursor": null}`, "Cache-Control", "no-store"))
		all, err := c.List(t.Context(), issuer, agentauth.View{Query: "x"})
		if err != nil || len(all) != 2 {
			t.Errorf("%+v, %v", all, err)
		}
		asked := w.to("GET " + issuer + "/capability/list")
		if len(asked) != 2 || asked[1].URL.Query().Get("cursor") != "2" || asked[1].URL.Query().Get("query") != "x" {
			t.Errorf("asked %v", asked)
		}
		if _, err := c.List(t.Context(), issuer, agentauth.View{Query: "x"}); err != nil || len(w.to("GET "+issuer+"/capability/list")) != 3 {
			t.Errorf("%v: an answer that is not to be stored was", err)
		}
	})
}

func TestAAPE5_Streams(t *testing.T) {
	for name, test := range map[string]struct {
		stream string
		want   []string
		final  string
		bad    bool
	}{
		"data, and the end":              {"data: 1\n\nevent: data\ndata: {\"a\":\ndata: 2}\n\nevent: done\ndata: {\"n\": 2}\n\n", []string{"data 1", "data {\"a\":\n2}", `done {"n": 2}`}, `{"n": 2}`, false},
		"an end without anything":        {"event: done\n\n", []string{"done null"}, "null", false},
		"comments, and carriage returns": {": hello\r\n\r\ndata: 1\r\n\r\nevent: done\r\ndata:\r\n\r\n", []string{"data 1", "done null"}, "null", false},
		"what comes after the end":       {"event: done\ndata: 1\n\ndata: 2\n\n", []string{"done 1"}, "1", false},
		"it breaks off":                  {"data: 1\n\n", []string{"data 1"}, "", true},
		"an end that is not whole":       {"event: done\ndata: 1\n", nil, "", true},
		"an error":                       {"event: error\ndata: {\"error\": \"capability_not_granted\"}\n\nevent: done\n\n", nil, "", true},
		"something that is no JSON":      {"data: {\n\n", nil, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWorld(t)
			a := pays(t, c, "")
			w.answers[executeAt] = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
				_, _ = io.WriteString(w, test.stream)
			}
			var got []string
			out, err := c.Execute(t.Context(), a.ID, pay, func(e agentauth.Event) error {
				got = append(got, e.Name+" "+string(e.Data))
				return nil
			})
			if (err != nil) != test.bad || !slices.Equal(got, test.want) || string(out.Data) != test.final {
				t.Errorf("%q, %s, %v", got, out.Data, err)
			}
		})
	}
}

func TestAAPE11_Batches(t *testing.T) {
	const at = "POST " + issuer + "/capability/batch-execute"
	w, c := newWorld(t)
	a := pays(t, c, "")
	w.answers[at] = says(200, `{"responses": [{"id": "1", "status": "failed", "error": {"code": "constraint_violated", "message": "no"}},
		{"id": "0", "status": "completed", "data": 7}, {"id": "99", "status": "completed", "data": 7}]}`)
	out, err := c.Batch(t.Context(), a.ID, []agentauth.Execution{pay, pay, pay})
	if err != nil || string(out[0].Data) != "7" || out[1].Err == nil || out[2].Err == nil {
		t.Errorf("%+v, %v", out, err)
	}
	w.answers[at] = says(405, "")
	out, err = c.Batch(t.Context(), a.ID, []agentauth.Execution{pay, pay})
	if err != nil || out[1].Err != nil || len(w.to(executeAt)) != 2 {
		t.Errorf("%+v, %v, sent %d times", out, err, len(w.to(executeAt)))
	}
}
