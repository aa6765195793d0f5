package gateway

import (
	"net/url"
	"testing"
)

// ATK-15: the operator's hosts are those of upstream, in any spelling and at any port,
// and those that are listed.
func TestATK15_HostsThatAnOperatorNamed(t *testing.T) {
	a := newAgent(Agent{Behind: Behind{Upstream: "http://Documents.svc:9001/x", GRPCUpstream: "http://127.0.0.2:9002", UpstreamHosts: []string{"workers.svc", "*.pool.svc", "10.0.0.7"}}}, &Gateway{ending: t.Context()})
	for text, want := range map[string]bool{
		"http://documents.svc:80/": true, "https://DOCUMENTS.SVC.:1/": true, "http://127.0.0.1/": true, "http://localhost:3/": true, "http://[::1]:3/": true,
		"http://workers.svc/": true, "http://a.pool.svc/": true, "http://10.0.0.7:2375/": true,
		"http://other.svc/": false, "http://documents.svc.example/": false, "http://pool.svc/": false, "http://10.0.0.8/": false, "http://169.254.169.254/": false,
		"http://[::ffff:10.0.0.8]/": false, "http://0.0.0.0/": false, "http://2130706433/": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.isNamedHost(u); got != want {
			t.Errorf("ATK-15 %s: %t", text, got)
		}
	}
}
