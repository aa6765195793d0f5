package main

import (
	"context"
	"crypto/rand"
	"debug/buildinfo"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/internal/freeport"
	"github.com/powerbox-project/powerbox/token"
)

// The rows (a) and (b).
const (
	byReference = "gateway by reference"
	withProof   = "gateway with proofs"
)

// front is a process that answers the calls of the gateway's rows.
type front struct {
	name    string
	process *process
	asked   []*process // by process, for each call; their CPU time counts too
	load    load
	request func(i int) []byte
	// fresh prepares n calls, unmeasured; nil where one request serves for all.
	fresh func(n int) error
	calls int      // in a round of cells of 100ms
	log   *growing // has a line for each call; nil for none
}

// cpu is the user and system time of the processes so far.
func (f *front) cpu() (total time.Duration, err error) {
	for _, p := range append([]*process{f.process}, f.asked...) {
		spent, err := p.cpu()
		if err != nil {
			return 0, err
		}
		total += spent
	}
	return total, nil
}

// gatewayRows starts the contestants and adds their trials.
func (f *field) gatewayRows(ctx context.Context) error {
	var towns []*town
	for _, lines := range [][2]string{{"", "signatures: batch"}, {"", "signatures: record"}, {"    context: none", "signatures: batch"}} {
		t, err := newTown(ctx, f.dir, "agent", lines[0], lines[1])
		if err != nil {
			return err
		}
		f.closers = append(f.closers, t.close)
		towns = append(towns, t)
	}
	t, each, plain := towns[0], towns[1], towns[2]
	caddy, err := t.build(ctx, "caddy", "caddy", ".")
	if err != nil {
		return err
	}
	version, err := versionIn(caddy, "github.com/caddyserver/caddy/v2")
	if err != nil {
		return err
	}
	f.peers = append(f.peers, version)
	fronts, err := t.peers(ctx, caddy)
	if err != nil {
		return err
	}
	batched, err := t.byReference(ctx, byReference)
	if err != nil {
		return err
	}
	signed, err := each.byReference(ctx, byReference+", every record signed")
	if err != nil {
		return err
	}
	unsigned, err := plain.byReference(ctx, byReference+", context: none")
	if err != nil {
		return err
	}
	proven, err := each.withProofs(ctx)
	if err != nil {
		return err
	}
	edges, err := each.edges(ctx, caddy)
	if err != nil {
		return err
	}
	fronts = slices.Concat(fronts, []*front{batched, unsigned, signed}, proven, edges)
	for _, front := range fronts {
		f.trials = append(f.trials, front.cpuTrial())
	}
	for _, front := range fronts {
		switch front.name {
		case "tuned httputil", byReference:
			f.trials = append(f.trials, front.paceTrial(byReference))
			if front == batched {
				f.trials = append(f.trials, diskTrial(batched.calls, f.dir, byReference))
			}
		case withProof, edgeOPA, edgeJWT:
			f.trials = append(f.trials, front.paceTrial(withProof, edgeOPA, edgeJWT))
		}
	}
	return nil
}

// peers are those who check nothing.
func (t *town) peers(ctx context.Context, caddy string) ([]*front, error) {
	var fronts []*front
	for _, p := range []struct {
		name    string
		command func(listen string) (*process, error)
	}{
		{"plain handler", func(listen string) (*process, error) { return t.peer(ctx, "handler", "handler", listen, t.folder) }},
		{"tuned httputil", func(listen string) (*process, error) {
			return t.peer(ctx, "httputil", "httputil", listen, t.folder, "http://"+t.upstream)
		}},
		{"Caddy", func(listen string) (*process, error) {
			return t.run(ctx, "caddy", listen, caddy, listen, t.upstream, t.folder)
		}},
	} {
		listen, err := freeport.Lasting()
		if err != nil {
			return nil, err
		}
		started, err := p.command(listen)
		if err != nil {
			return nil, err
		}
		raw := rawRequest(listen, nil, sendMessage("handle", "cap_0"))
		fronts = append(fronts, &front{name: p.name, process: started, load: t.load(listen), request: func(int) []byte { return raw }, calls: 3000})
	}
	return fronts, nil
}

// versionIn returns a module with the version that a program was built with.
func versionIn(program, module string) (string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", err
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Path + " " + m.Version, nil
		}
	}
	return "", fmt.Errorf("%s is not built with %s", program, module)
}

func (t *town) load(address string) load {
	return load{address: address, tls: t.tls, want: []byte(`"answer-1"`)}
}

// byReference is the gateway, called under one capability on record.
func (t *town) byReference(ctx context.Context, name string) (*front, error) {
	id, handle, err := t.reference(ctx)
	raw := rawRequest(t.address, nil, sendMessage(handle, id))
	return &front{name: name, process: t.server, load: t.load(t.address), request: func(int) []byte { return raw }, calls: 4000}, err
}

// withProofs is the gateway with a proof on every call, and with a chain that it
// has not seen on every call.
func (t *town) withProofs(ctx context.Context) ([]*front, error) {
	c, agent, err := t.keyed(ctx)
	if err != nil {
		return nil, err
	}
	held, err := chain(ctx, c, agent)
	if err != nil {
		return nil, err
	}
	var proven, first [][]byte
	return []*front{
		{
			name: withProof, process: t.server, load: t.load(t.address), calls: 4000,
			request: func(i int) []byte { return proven[i] },
			fresh: func(n int) (err error) {
				proven, err = t.proven(c, agent, n, func() (holder.Capability, error) { return held, nil })
				return err
			},
		},
		{
			name: "gateway, first sight", process: t.server, load: t.load(t.address), calls: 600,
			request: func(i int) []byte { return first[i] },
			fresh: func(n int) (err error) {
				first, err = t.proven(c, agent, n, func() (holder.Capability, error) { return chain(ctx, c, agent) })
				return err
			},
		},
	}, nil
}

// proven makes n calls under capabilities, each with its own proof.
func (t *town) proven(c *holder.Client, agent holder.Agent, n int, next func() (holder.Capability, error)) ([][]byte, error) {
	calls := make([][]byte, n)
	for i := range calls {
		held, err := next()
		if err != nil {
			return nil, err
		}
		handle := held.Handles[0].Handle
		body := sendMessage(handle, "")
		arguments, err := powerbox.ParseValue([]byte(callArguments(handle)))
		if err != nil {
			return nil, err
		}
		proof, err := token.SignProof(held.Chain, c.Key, token.Proof{
			ID: rand.Text(), IssuedAt: time.Now(), Operation: agent.Skills["retrieve_document"].Operation.String(),
			Arguments: arguments, Audience: agent.Issuer,
			Request: &token.Request{Method: http.MethodPost, URL: agent.URL, Digest: token.DigestOf(body)},
		})
		if err != nil {
			return nil, err
		}
		calls[i] = rawRequest(t.address, [][2]string{{holder.HeaderCapability, token.JoinChain(held.Chain)}, {holder.HeaderProof, proof}}, body)
	}
	return calls, nil
}

func callArguments(handle string) string {
	return `{"note":"` + strings.Repeat("Summarize the quarterly report. ", 16) + `","resourceHandle":"` + handle + `"}`
}

// sendMessage is a call of about 1 KB that names a skill, its arguments and,
// where there is one, the capability that it is made under.
func sendMessage(handle, capability string) []byte {
	metadata := ""
	if capability != "" {
		metadata = fmt.Sprintf(`,"metadata":{%q:{"capabilityId":%q}}`, holder.ExtensionURI, capability)
	}
	return []byte(`{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":{"messageId":"message-1","role":"ROLE_USER","parts":[{"data":{"skill":"retrieve_document","arguments":` +
		callArguments(handle) + `}}]}` + metadata + `}}`)
}

// count is how many calls there are in a round.
func (f *front) count(cell time.Duration) int {
	return max(connections, int(float64(f.calls)*cell.Seconds()/0.1))
}

// prepare opens connections and makes the calls that are not counted.
func (f *front) prepare(n int) ([]*conn, error) {
	warm := n/10 + connections
	if f.fresh != nil {
		if err := f.fresh(n + warm); err != nil {
			return nil, err
		}
	}
	conns, err := f.load.dialAll(context.Background(), connections)
	if err != nil {
		return nil, err
	}
	if _, err := f.load.closed(conns, warm, func(i int) []byte { return f.request(n + i) }); err != nil {
		return nil, errors.Join(err, closeConns(conns))
	}
	return conns, nil
}

// cpuTrial has 32 callers, each of whom calls again as soon as it is answered,
// and measures what that takes of the processes.
func (f *front) cpuTrial() trial {
	return trial{f.name, func(into round, cell time.Duration) (err error) {
		n := f.count(cell)
		conns, err := f.prepare(n)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeConns(conns)) }()
		return f.recorded(n, func() error {
			before, err := f.cpu()
			if err != nil {
				return err
			}
			elapsed, err := f.load.closed(conns, n, f.request)
			if err != nil {
				return fmt.Errorf("%w\n%s", err, f.process.tail())
			}
			after, err := f.cpu()
			into[f.name] = float64(after-before) / float64(n)
			into[f.name+" per second"] = float64(n) / elapsed.Seconds()
			return err
		})
	}}
}

// p99 is what paceTrial calls the latency of a front.
func p99(name string) string { return name + " at half load p99 ms" }

// paceTrial makes calls at half the rate that the slowest of these fronts reached in this
// round, and measures their latency.
func (f *front) paceTrial(fronts ...string) trial {
	name := f.name + " at half load"
	return trial{name, func(into round, cell time.Duration) (err error) {
		n := f.count(cell) / 2
		conns, err := f.prepare(n)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeConns(conns)) }()
		rate := math.Inf(1)
		for _, front := range fronts {
			rate = min(rate, into[front+" per second"])
		}
		return f.recorded(n, func() error {
			latencies, err := f.load.paced(conns, n, rate/2, f.request)
			into[name+" p50 ms"] = quantile(latencies, 0.5)
			into[name+" p99 ms"] = quantile(latencies, 0.99)
			return err
		})
	}}
}

// gatewayGoals are the rows of the gateway.
func gatewayGoals() []goal {
	const a, b, first = byReference, withProof, "gateway, first sight"
	return []goal{
		{
			row: "gateway (b): a proof on every call, every record signed; CPU", against: "the better of Caddy with OPA and Caddy with JWTs", want: 0.8, atMost: true, unit: "x",
			value: func(r round) float64 { return r[b] / min(r[edgeOPA], r[edgeJWT]) },
		},
		{
			row: "gateway (b), p99 at the same rate", against: "the better of Caddy with OPA and Caddy with JWTs", want: 0.8, atMost: true, unit: "x",
			value: func(r round) float64 { return r[p99(b)] / min(r[p99(edgeOPA)], r[p99(edgeJWT)]) },
		},
		beside("gateway (b), CPU", edgeOPA, b, edgeOPA),
		beside("gateway (b), CPU", edgeJWT, b, edgeJWT),
		beside("gateway (b), p99 at the same rate", edgeOPA, p99(b), p99(edgeOPA)),
		beside("gateway (b), p99 at the same rate", edgeJWT, p99(b), p99(edgeJWT)),
		beside("gateway (a): by reference over mTLS; no proof, records under their batch's signature; CPU", "tuned httputil, which checks nothing", a, "tuned httputil"),
		beside("gateway (a), CPU", "Caddy, which checks nothing", a, "Caddy"),
		{
			row: "gateway (b): a proof on every call, every record signed", against: "(a), one signature check and two signatures", want: 1, atMost: true, unit: "x",
			value: func(r round) float64 { return r[b] / (r[a] + r["one Ed25519 check"] + 2*r["one Ed25519 signature"]) },
		},
		within("gateway, first sight of a chain of 3 links, with its proof, every record signed", first, b, 2),
		{
			row: "gateway (a), p99 at half load, less tuned httputil's and that of fsync", against: "-", want: 1, atMost: true, unit: " ms",
			value: func(r round) float64 { return r[p99(a)] - r[p99("tuned httputil")] - r["fsync p99 ms"] },
		},
		{
			row: "gateway (a), p99 at half load, less tuned httputil's and that of " + bareDisk + " at the same rate", against: "-", atMost: true, context: true, unit: " ms",
			value: func(r round) float64 { return r[p99(a)] - r[p99("tuned httputil")] - r[p99(bareDisk)] },
		},
	}
}
