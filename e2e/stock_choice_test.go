package e2e

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestSEP1_StockClientsChooseTheSameBinding gives clients an agent that has every
// binding and version, in another order each time: what they choose from the
// gateway's card is what they choose from the agent's.
func TestSEP1_StockClientsChooseTheSameBinding(t *testing.T) {
	asGiven(t)
	everywhere(t, func(t *testing.T, on wire) {
		more := slices.DeleteFunc(slices.Clone(wires), func(other wire) bool { return other == on })
		for name, say := range stockClients(t, on) {
			t.Run(name, func(t *testing.T) {
				alone, behind := newPolyglot(t, on, unhindered(), more...), newPolyglot(t, on, unhindered(), more...)
				w := guarded(t, behind, "observe", "")
				chosen := func(agent *stock, base string) []string {
					say(t, base, sent{}, [][]string{{"send", "hello"}})
					var paths []string
					for _, r := range agent.got() {
						paths = append(paths, r.header[":path"][0])
					}
					return paths
				}
				direct, through := chosen(alone, alone.url), chosen(behind, w.agentURL("documents"))
				if diff := cmp.Diff(direct, through); diff != "" || len(direct) != 1 {
					t.Errorf("directly %q; through the gateway %q", direct, through)
				}
			})
		}
	})
}

// TestClientsThatGoAwayEndTheirCalls has a client leave in the middle of a
// stream on every binding: the agent is told at once, as it would be without a
// gateway.
func TestClientsThatGoAwayEndTheirCalls(t *testing.T) {
	asGiven(t)
	everywhere(t, func(t *testing.T, on wire) {
		for _, mode := range []string{"observe", "prefer"} {
			t.Run(mode, func(t *testing.T) {
				stream := slices.IndexFunc(takes(on), func(c take) bool { return c.name == "a stream" })
				c := takes(on)[stream].whole()
				c.pieces = []string{unbroken(on, c.pieces)[0], "never"}
				p := newTape(t, on)
				w := &town{t: t, dir: t.TempDir(), documents: &stock{url: p.url}, grpc: map[string]string{}}
				w.write("policies.cedar", "permit(principal, action, resource);")
				w.guard(mode, taping)
				client, at := http.DefaultClient, w.agentURL("documents")
				if on.binding == overGRPC {
					client, at = h2, "http://"+w.grpc["documents"]
				}
				p.begin(c)
				res, err := client.Do(p.request(at, c, nil))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.CopyN(io.Discard, res.Body, int64(len(c.pieces[0]))); err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				select {
				case <-p.gone:
				case <-time.After(patience):
					t.Error("the agent goes on for a client that has left")
				}
			})
		}
	})
}
