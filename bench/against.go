package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/built"
)

// runAgainst measures the rows (a) and (b) of the gateway with this tree's binary and with
// another one, such as that of the commit before, in the same rounds. Each trial is next to
// that of the other binary, and every second round the other binary is first: a place in a
// round can cost some percent. A binary of this tree is built unless ours names one.
func runAgainst(ctx context.Context, dir, ours, other string, rounds int, cell time.Duration, stdout, stderr io.Writer) (err error) {
	const theirs = ", the other binary"
	if _, err := os.Stat(other); err != nil {
		return fmt.Errorf("the other binary: %w", err)
	}
	folder, err := os.MkdirTemp(dir, "against")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if ours, err = built.Binary(ctx, ours, folder); err != nil {
		return err
	}
	var sides [2][]trial
	for i, side := range []struct{ binary, suffix string }{{ours, ""}, {other, theirs}} {
		trials, stop, err := againstTrials(ctx, dir, side.binary, side.suffix)
		defer func() { err = errors.Join(err, stop()) }()
		if err != nil {
			return err
		}
		sides[i] = trials
	}
	var all []round
	for n := range rounds {
		var trials []trial
		for i := range sides[0] {
			first := n % 2
			trials = append(trials, sides[first][i], sides[1-first][i])
		}
		one, err := play(trials, 1, cell, func(line string) { fmt.Fprintf(stderr, "%d of %d, %s\n", n+1, rounds, line) })
		if err != nil {
			return err
		}
		all = append(all, one...)
	}
	const a, b = byReference, withProof
	for _, g := range []goal{
		within("gateway (a): by reference, CPU a call", a, a+theirs, 1),
		within("gateway (b): a proof on every call, CPU a call", b, b+theirs, 1),
		within("gateway (a): p99 at half load", p99(a), p99(a+theirs), 1),
	} {
		low, high := medianInterval(all, g.value)
		if _, err := fmt.Fprintf(stdout, "%s median of the other binary's %.3fx to %.3fx with 95 %% confidence\n", g.judge(all), low, high); err != nil {
			return err
		}
	}
	return nil
}

// medianInterval is where the median of a value lies with a confidence of 95 %, by the
// binomial distribution of how many values are below it. With fewer than six rounds it is
// all of their range.
func medianInterval(rounds []round, value func(round) float64) (low, high float64) {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = value(r)
	}
	slices.Sort(values)
	n := len(values)
	cut, below, term := 0, 0.0, math.Pow(0.5, float64(n))
	for k := range n / 2 {
		if below += term; below > 0.025 {
			break
		}
		cut = k + 1
		term *= float64(n-k) / float64(k+1)
	}
	at := max(cut-1, 0)
	return values[at], values[n-1-at]
}

// againstTrials starts a binary twice and returns its trials.
func againstTrials(ctx context.Context, dir, binary, suffix string) (trials []trial, stop func() error, err error) {
	var closers []func() error
	stop = func() (err error) {
		for _, c := range closers {
			err = errors.Join(err, c())
		}
		return err
	}
	var towns [2]*town
	for i, signatures := range []string{"batch", "record"} {
		if towns[i], err = newTownOf(ctx, dir, plan{binary: binary, role: "agent", evidence: "signatures: " + signatures}); err != nil {
			return nil, stop, err
		}
		closers = append(closers, towns[i].close)
	}
	batched, err := towns[0].byReference(ctx, byReference+suffix)
	if err != nil {
		return nil, stop, err
	}
	proven, err := towns[1].withProofs(ctx)
	if err != nil {
		return nil, stop, err
	}
	proven[0].name += suffix
	return []trial{batched.cpuTrial(), batched.paceTrial(byReference), proven[0].cpuTrial()}, stop, nil
}
