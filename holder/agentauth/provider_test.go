package agentauth_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/powerbox-project/powerbox/holder/agentauth"
)

// TestAAPCL4_DocumentsThatAreNotBelieved changes one thing of a good document.
func TestAAPCL4_DocumentsThatAreNotBelieved(t *testing.T) {
	endpoints := func(name, at string) map[string]any {
		all := map[string]string{}
		for _, n := range []string{
			"register", "capabilities", "describe_capability", "execute", "request_capability", "status", "reactivate", "revoke", "rotate_key", "rotate_host_key",
		} {
			all[n] = "/" + n
		}
		if all[name] = at; at == "" {
			delete(all, name)
		}
		return map[string]any{"endpoints": all}
	}
	for name, test := range map[string]struct {
		change map[string]any
		want   error // nil for any
	}{
		"another major version":             {map[string]any{"version": "2.0"}, agentauth.ErrVersion},
		"a version of another form":         {map[string]any{"version": "1"}, agentauth.ErrVersion},
		"no version":                        {map[string]any{"version": nil}, agentauth.ErrVersion},
		"another issuer":                    {map[string]any{"issuer": "https://evil.example"}, agentauth.ErrIssuer},
		"an issuer that begins alike":       {map[string]any{"issuer": issuer + ".evil.example"}, agentauth.ErrIssuer},
		"no key that is spoken here":        {map[string]any{"algorithms": []string{"RSA"}}, nil},
		"no name":                           {map[string]any{"provider_name": nil}, nil},
		"no endpoint to register":           {endpoints("register", ""), nil},
		"an endpoint at another origin":     {endpoints("register", "https://evil.example/register"), agentauth.ErrAddress},
		"an endpoint at another port":       {endpoints("register", issuer+":8443/register"), agentauth.ErrAddress},
		"an endpoint without a scheme":      {endpoints("register", "//evil.example/register"), agentauth.ErrAddress},
		"a location without TLS":            {map[string]any{"default_location": "http://bank.example/execute"}, agentauth.ErrAddress},
		"a location with a login":           {map[string]any{"default_location": "https://a:b@bank.example/execute"}, agentauth.ErrAddress},
		"a location on the client":          {map[string]any{"default_location": "http://127.0.0.1:8500/execute"}, agentauth.ErrAddress},
		"a location that is no URL at all":  {map[string]any{"default_location": "execute"}, agentauth.ErrAddress},
		"modes in another form than a list": {map[string]any{"modes": "delegated"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWorld(t)
			w.answers[discovery] = says(200, document(t, test.change))
			_, err := c.Discover(t.Context(), issuer)
			if err == nil || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if all, _ := c.Providers(); len(all) != 0 {
				t.Errorf("it is kept: %v", all)
			}
		})
	}
}

func TestAAPCL4_GoodDocuments(t *testing.T) {
	for name, change := range map[string]map[string]any{
		"a later minor version":       {"version": "1.7"},
		"members that nobody knows":   {"extra": map[string]any{"a": 1}},
		"a slash after the issuer":    {"issuer": issuer + "/"},
		"a location at another place": {"default_location": "https://api.example/execute"},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWorld(t)
			w.answers[discovery] = says(200, document(t, change))
			p, err := c.Discover(t.Context(), issuer+"/")
			if err != nil || p.Issuer != issuer || p.Endpoints["register"] != issuer+"/agent/register" {
				t.Errorf("%+v, %v", p, err)
			}
			if p.Location != issuer+"/capability/execute" && change["default_location"] != p.Location {
				t.Errorf("location %q", p.Location)
			}
		})
	}
}

// TestAAPCL7_URLsThatNobodyAsks are given by people.
func TestAAPCL7_URLsThatNobodyAsks(t *testing.T) {
	_, c := newWorld(t)
	for _, at := range []string{"http://bank.example", "ftp://bank.example", "https://u:p@bank.example", "bank.example", "https://bank.example?x=y", "https://bank.example#x"} {
		if _, err := c.Discover(t.Context(), at); !errors.Is(err, agentauth.ErrAddress) {
			t.Errorf("%s: %v", at, err)
		}
	}
}

func TestAAPCL4_DiscoveryIsCached(t *testing.T) {
	for name, test := range map[string]struct {
		header []string
		after  time.Duration
		want   int // fetches
	}{
		"nothing said, within the hour":   {nil, 59 * time.Minute, 1},
		"nothing said, after the hour":    {nil, 61 * time.Minute, 2},
		"a minute, within":                {[]string{"Cache-Control", "public, max-age=60"}, 59 * time.Second, 1},
		"a minute, after":                 {[]string{"Cache-Control", "public, max-age=60"}, 61 * time.Second, 2},
		"a year is an hour":               {[]string{"Cache-Control", "max-age=31536000"}, 61 * time.Minute, 2},
		"not to be stored":                {[]string{"Cache-Control", "no-store"}, time.Second, 2},
		"a max-age that is none is not 0": {[]string{"Cache-Control", "max-age=never"}, time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, c := newWorld(t)
				w.answers[discovery] = says(200, document(t, nil), test.header...)
				for range 2 {
					if _, err := c.Discover(t.Context(), issuer); err != nil {
						t.Fatal(err)
					}
					<-time.NewTimer(test.after).C
				}
				if got := len(w.to(discovery)); got != test.want {
					t.Errorf("fetched %d times, want %d", got, test.want)
				}
			})
		})
	}
}

// TestAAPCL4_GoneEndpointsAreLookedFor moves an endpoint after the first discovery.
func TestAAPCL4_GoneEndpointsAreLookedFor(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusGone} {
		synctest.Test(t, func(t *testing.T) {
			w, c := newWorld(t)
			a := pays(t, c, "")
			w.answers["GET "+issuer+"/agent/status"] = says(status, `{"error": "not_found"}`)
			moved := map[string]string{}
			p, err := c.Discover(t.Context(), issuer)
			if err != nil {
				t.Fatal(err)
			}
			for name, at := range p.Endpoints {
				moved[name] = at
			}
			moved["status"] = "/v2/status"
			w.answers[discovery] = says(200, document(t, map[string]any{"endpoints": moved}))
			w.answers["GET "+issuer+"/v2/status"] = says(200, active)
			if _, err := c.Status(t.Context(), a.ID); err != nil || len(w.to("GET "+issuer+"/v2/status")) != 1 {
				t.Errorf("%d: %v", status, err)
			}
			// That there is no such agent is no reason to look.
			before := len(w.to(discovery))
			w.answers["GET "+issuer+"/v2/status"] = says(status, `{"error": "agent_not_found"}`)
			if _, err := c.Status(t.Context(), a.ID); err == nil || len(w.to(discovery)) != before {
				t.Errorf("%d: %v, %d fetches", status, err, len(w.to(discovery))-before)
			}
		})
	}
}

// TestAAPCL4_UnreachableIsAsItWas for a day, and no longer.
func TestAAPCL4_UnreachableIsAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t)
		if _, err := c.Discover(t.Context(), issuer); err != nil {
			t.Fatal(err)
		}
		w.answers[discovery] = says(503, "")
		<-time.NewTimer(2 * time.Hour).C
		if _, err := c.Discover(t.Context(), issuer); err != nil {
			t.Errorf("after two hours: %v", err)
		}
		w.answers[discovery] = says(200, document(t, map[string]any{"issuer": "https://evil.example"}))
		if _, err := c.Discover(t.Context(), issuer); !errors.Is(err, agentauth.ErrIssuer) {
			t.Errorf("another issuer passes for an outage: %v", err)
		}
		w.answers[discovery] = says(503, "")
		<-time.NewTimer(23 * time.Hour).C
		if _, err := c.Discover(t.Context(), issuer); err == nil {
			t.Error("a document older than a day is used")
		}
	})
}

// TestAAPCL11_DirectoryIsNotBelieved takes the issuer's own word alone.
func TestAAPCL11_DirectoryIsNotBelieved(t *testing.T) {
	w, c := newWorld(t)
	var warned int
	c.Directory, c.Warn = "https://directory.example", func(string) { warned++ }
	w.answers["GET https://directory.example/api/search"] = says(200, `{"providers": [
		{"issuer": "https://bank.example", "provider_name": "BANK"}, {"issuer": "https://evil.example"}, {"issuer": "http://127.0.0.1:1"}], "count": 3}`)
	w.answers["GET https://evil.example/.well-known/agent-configuration"] = says(200, document(t, nil))
	found, err := c.Search(t.Context(), "send money")
	if err != nil || len(found) != 1 || found[0].Name != "bank" || warned != 2 {
		t.Errorf("%+v, %v, %d warnings", found, err, warned)
	}
	if q := w.to("GET https://directory.example/api/search")[0].URL.Query(); q.Get("intent") != "send money" || q.Get("limit") == "" {
		t.Errorf("asked %v", q)
	}
	if len(w.to("GET http://127.0.0.1:1/.well-known/agent-configuration")) != 0 {
		t.Error("a place on the client was asked")
	}
	c.Directory = ""
	if _, err := c.Search(t.Context(), "x"); err == nil {
		t.Error("a search without a directory")
	}
}
