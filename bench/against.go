package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// runAgainst measures the rows (a) and (b) of the gateway with this tree's binary and with
// another one, such as that of the commit before, in the same rounds.
func runAgainst(ctx context.Context, dir, other string, rounds int, cell time.Duration, stdout, stderr io.Writer) (err error) {
	const theirs = ", the other binary"
	var trials []trial
	for _, side := range []struct{ binary, suffix string }{{"", ""}, {other, theirs}} {
		more, stop, err := againstTrials(ctx, dir, side.binary, side.suffix)
		defer func() { err = errors.Join(err, stop()) }()
		if err != nil {
			return err
		}
		trials = append(trials, more...)
	}
	all, err := play(trials, rounds, cell, func(line string) { fmt.Fprintln(stderr, line) })
	if err != nil {
		return err
	}
	const a, b = byReference, withProof
	for _, g := range []goal{
		within("gateway (a): by reference, CPU a call", a, a+theirs, 1),
		within("gateway (b): a proof on every call, CPU a call", b, b+theirs, 1),
		within("gateway (a): p99 at half load", p99(a), p99(a+theirs), 1),
	} {
		if _, err := fmt.Fprintln(stdout, g.judge(all)); err != nil {
			return err
		}
	}
	return nil
}

// againstTrials starts a binary twice, "" for that of this tree, and returns its trials.
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
