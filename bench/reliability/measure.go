package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/reliability"
)

// revocation measures a revocation to followers of the feed.
func (b *bench) revocation() error {
	t, err := b.town("revocation", nil)
	if err != nil {
		return err
	}
	answered, each, last, err := t.Revocations(b.ctx, b.followers, 20*b.times)
	if err == nil {
		b.page.others = append(b.page.others, fmt.Sprintf("Revocation with %d nodes, %d gateways and %d followers of the feed in this program (HTTP on loopback). The balancer chose the node of each follower. "+
			"The time begins before the operator's request is sent to any node.\n\n| from the operator's request to | times | p50 ms | p99 ms | longest ms |\n| --- | --- | --- | --- | --- |\n%s%s%s", b.nodes, b.gateways, b.followers,
			row("its answer", answered), row(fmt.Sprintf("one of %d followers knows", b.followers), each), row(fmt.Sprintf("the last of %d knows", b.followers), last)))
	}
	if closing := t.Close(); err == nil {
		err = closing
	}
	return err
}

// control has the judgement find what asynchronous replication loses.
func (b *bench) control() error {
	t, err := b.town("control", func(c *reliability.Config) { c.Gateways, c.UnsafeAsynchronous = 0, true })
	if err != nil {
		return err
	}
	acknowledged, lost, err := t.Control(b.ctx)
	if err == nil {
		b.page.others = append(b.page.others, fmt.Sprintf("The control uses asynchronous replication and `durability: single`, with kill -9 of the standby and two seconds later of the primary. "+
			"%d of %d acknowledged decisions are lost.", lost, acknowledged))
		if lost == 0 {
			err = errors.New("nothing is lost with asynchronous replication, so the trials would find nothing")
		}
	}
	return errors.Join(err, t.Close())
}

func row(name string, times []time.Duration) string {
	slices.Sort(times)
	at := func(q float64) float64 { return float64(times[int(q*float64(len(times)-1))].Microseconds()) / 1000 }
	return fmt.Sprintf("| %s | %d | %.1f | %.1f | %.1f |\n", name, len(times), at(0.5), at(0.99), at(1))
}

// scale measures throughput with one node and with three, turn about.
func (b *bench) scale() error {
	const callers, rounds = 32, 3
	t, err := b.town("scale", func(c *reliability.Config) { c.Gateways, c.Workers = 0, callers })
	if err != nil {
		return err
	}
	rates := map[int]map[string][]float64{1: {}, b.nodes: {}}
	for range rounds {
		for _, nodes := range []int{1, b.nodes} {
			for _, kind := range []string{"requests for capabilities", "calls"} {
				n, err := t.Throughput(b.ctx, kind == "calls", nodes, b.scaling)
				if err != nil {
					_ = t.Close() // the error before says more
					return err
				}
				b.say("%d nodes: %.0f %s per second", nodes, n, kind)
				rates[nodes][kind] = append(rates[nodes][kind], n)
			}
		}
	}
	text := fmt.Sprintf("Scale-out (goal: at least 2x if there are enough cores): %d callers, %d alternating rounds of %v each, medians. Nodes, both databases, balancer and callers share %s.\n\n"+
		"| per second | 1 node | %d nodes | ratio |\n| --- | --- | --- | --- |\n", callers, rounds, b.scaling, machine(), b.nodes)
	for _, kind := range []string{"requests for capabilities", "calls"} {
		one, all := median(rates[1][kind]), median(rates[b.nodes][kind])
		text += fmt.Sprintf("| %s | %.0f | %.0f | %.2f |\n", kind, one, all, all/one)
	}
	b.page.others = append(b.page.others, text)
	return t.Close()
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
