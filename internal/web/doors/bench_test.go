package doors_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
)

// BenchmarkDoors measures a decision with its record: of the gateway alone, and through each
// door. Their difference is what a door adds. The callers prove nothing, in mode observe, so
// that the same call can be sent again.
func BenchmarkDoors(b *testing.B) {
	w := newTown(b, "observe")
	c := post("notes", skill("read_note", 1))
	client := auth.NewAuthorizationClient(w.conn)
	request := c.checkRequest()
	question := `{"subject":{"type":"agent","id":"assistant"},"action":{"name":"read_note","properties":{"arguments":{"title":"a"}}},"resource":{"type":"agent","id":"notes"}}`
	for _, door := range []struct {
		name string
		ask  func() bool
	}{
		{"gateway", func() bool {
			r := httptest.NewRequestWithContext(b.Context(), c.method, c.path, strings.NewReader(c.body))
			r.Header = c.header.Clone()
			return w.instance.Gateway().Advise(r, gateway.Carries{Answers: true}).Forward != nil
		}},
		{"ext_authz", func() bool {
			a, err := client.Check(b.Context(), request)
			return err == nil && a.GetOkResponse() != nil
		}},
		{"AuthZEN", func() bool {
			return w.guardAsks(b, http.MethodPost, "/access/v1/evaluation", guardToken, question).Decision
		}},
	} {
		b.Run(door.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := now()
				if !door.ask() {
					b.Fatal("denied")
				}
				took = append(took, now().Sub(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
		})
	}
}
