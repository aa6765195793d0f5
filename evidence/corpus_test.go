package evidence

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"
)

// mutation is one bundle, or series, that differs from the log.
type mutation struct {
	family, name string
	of           *world
	trust        Trust
	seen         bool // with the checkpoint that ends the world
	bundles      [][]byte
	expect       expectation
	shows        []Kind // with thief: each must be found; empty if nothing shows it
}

// expectation is how the verdict is known. That both verifiers say the same is
// expected always.
type expectation int

const (
	// open: it is ok only where the records are those that were logged, byte for byte
	// and in their order.
	open expectation = iota
	// holds: it means the same as the log, and is ok.
	holds
	// thief: it was made with stolen keys, and shows says what shows it.
	thief
)

// families are the ways to change a bundle.
var families = []struct {
	name   string
	mutate func(m *mutator) mutation
}{
	{"truncate", (*mutator).truncate},
	{"reorder", (*mutator).reorder},
	{"duplicate", (*mutator).duplicate},
	{"change member", (*mutator).changeMember},
	{"number spelling", (*mutator).spelling},
	{"signature", (*mutator).signature},
	{"swap keys", (*mutator).otherKeys},
	{"stolen keys", (*mutator).stolen},
	{"foreign chains", (*mutator).foreign},
	{"checkpoint and leaves", (*mutator).logged},
	{"outcomes and erasures", (*mutator).stories},
}

// perFamily is how many mutations there are of each.
const perFamily = 1850

// corpus makes all mutations from one seed. No two are the same.
func corpus(t *testing.T) []mutation {
	t.Helper()
	worlds := newWorlds(t)
	var all []mutation
	seen := map[[sha256.Size]byte]bool{}
	for number, family := range families {
		m := &mutator{t: t, random: rand.New(rand.NewPCG(72, uint64(number)))}
		for n, tries := 0, 0; n < perFamily; tries++ {
			if tries > 40*perFamily {
				t.Fatalf("%s has only %d mutations", family.name, n)
			}
			m.world = worlds[tries%len(worlds)]
			one := family.mutate(m)
			if one.of == nil {
				continue // it changed nothing
			}
			if key := one.hash(t); !seen[key] {
				seen[key] = true
				one.family = family.name
				all = append(all, one)
				n++
			}
		}
	}
	return all
}

func (m mutation) hash(t *testing.T) [sha256.Size]byte {
	t.Helper()
	h := sha256.New()
	trust, err := json.Marshal(m.trust)
	must(t, err)
	fmt.Fprintf(h, "%s %v %d ", trust, m.seen, len(m.bundles))
	for _, bundle := range m.bundles {
		fmt.Fprintf(h, "%d ", len(bundle))
		h.Write(bundle)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// TestATK72_BothVerifiersAgreeOnEveryMutation: more than 20,000 bundles of eleven
// families, and both verifiers find the same in each. No bundle is ok that differs in
// meaning from the log, unless its maker had the keys. For those the corpus names the
// findings that show it.
func TestATK72_BothVerifiersAgreeOnEveryMutation(t *testing.T) {
	all := corpus(t)
	if len(all) < 20_000 || len(families) != 11 {
		t.Fatalf("%d mutations of %d families", len(all), len(families))
	}
	var input bytes.Buffer
	writeCorpus(t, &input, all)
	if file := os.Getenv("EVIDENCE_CORPUS"); file != "" { // for who writes a third verifier (docs/reference/evidence.md)
		must(t, os.WriteFile(file, input.Bytes(), 0o600))
	}
	answers := make(chan []said, 1)
	go func() { answers <- inCorpus(t, &input) }()
	reports, refused := inGo(all)
	other := <-answers
	if len(other) != len(all) {
		t.Fatalf("%d answers of verify.mjs to %d mutations", len(other), len(all))
	}
	found, verified, wrong := map[Kind]int{}, map[string]int{}, 0
	for i, one := range all {
		name := fmt.Sprintf("%d %s: %s of %s", i, one.family, one.name, one.of.name)
		if why := disagreement(reports[i], refused[i], other[i]); why != "" {
			t.Errorf("ATK-72 %s: Go (-) and verify.mjs (+) disagree\n%s", name, why)
			wrong++
		}
		if why := one.judge(reports[i], refused[i]); why != "" {
			t.Errorf("ATK-72 %s: %s; %s %v", name, why, reports[i].Verdict(), placed(reports[i]))
			wrong++
		}
		if refused[i] == nil && reports[i].Verdict() == OK {
			verified[one.family]++
		}
		if wrong > 20 {
			t.Fatal("ATK-72 and so on")
		}
		for _, p := range reports[i].Problems {
			found[p.Kind]++
		}
	}
	t.Logf("%d mutations; of each family verify %v; found %v", len(all), verified, found)
	if len(found) < 19 || len(verified) < 6 {
		t.Errorf("ATK-72 the mutations show only %v, and %v verify", found, verified)
	}
	if file := os.Getenv("EVIDENCE_CORPUS"); file != "" {
		must(t, os.WriteFile(file+".found", findings(t, reports, refused), 0o600))
	}
}

// findings lists the findings of each mutation, a line for each.
func findings(t *testing.T, reports []Report, refused []error) []byte {
	t.Helper()
	var out bytes.Buffer
	for i, report := range reports {
		line := struct {
			Verdict  string   `json:"verdict"`
			Problems []string `json:"problems"`
		}{string(report.Verdict()), placed(report)}
		if refused[i] != nil {
			line.Verdict = "refused"
		}
		must(t, json.NewEncoder(&out).Encode(line))
	}
	return out.Bytes()
}

// judge returns the error in a verdict, "" for none.
func (m mutation) judge(report Report, refused error) string {
	ok := refused == nil && report.Verdict() == OK
	switch m.expect {
	case holds:
		if !ok {
			return "it means what was logged"
		}
	case open:
		if ok && !m.of.same(m.bundles, m.seen) {
			return "it means something else than what was logged"
		}
	case thief:
		var kinds []Kind
		for _, p := range report.Problems {
			kinds = append(kinds, p.Kind)
		}
		for _, want := range m.shows {
			if !slices.Contains(kinds, want) {
				return fmt.Sprintf("it has to show as %s", want)
			}
		}
		if len(m.shows) == 0 && !ok {
			return "nothing was to show it"
		}
	}
	return ""
}

// same reports whether bundles have the records of the world, all of them or those of
// its first bundles.
func (w *world) same(bundles [][]byte, seen bool) bool {
	var got [][]byte
	for _, bundle := range bundles {
		got = append(got, recordLines(bundle)...)
	}
	ends := []int{len(w.pages)}
	if !seen {
		ends = append(ends, w.split)
	}
	return slices.ContainsFunc(ends, func(end int) bool {
		return end > 0 && slices.EqualFunc(got, w.pages[:end], func(line []byte, p page) bool { return bytes.Equal(line, p.record) })
	})
}

func recordLines(bundle []byte) [][]byte {
	var out [][]byte
	for n, line := range lines(bundle) {
		if n > 0 && !bytes.HasPrefix(line, []byte(leavesMark)) && !bytes.HasPrefix(line, []byte(checkpointMark)) && !bytes.HasPrefix(line, []byte(bodyMark)) {
			out = append(out, bytes.TrimSuffix(line, []byte("\n")))
		}
	}
	return out
}

// disagreement compares what two verifiers say, without their messages.
func disagreement(report Report, refused error, other said) string {
	if refused != nil || other.Report == nil {
		if refused != nil && other.Report == nil {
			return ""
		}
		return fmt.Sprintf("one of them gives up: %v, %q", refused, other.Error)
	}
	if other.Report.Verdict != string(report.Verdict()) || other.Report.Unverifiable != 0 {
		return fmt.Sprintf("%s %v, %s %v", report.Verdict(), placed(report), other.Report.Verdict, placed(other.Report.Report))
	}
	ours, theirs := report, other.Report.Report
	ours.Problems, theirs.Problems = places(ours.Problems), places(theirs.Problems)
	ours.Pending, theirs.Pending = append([]string{}, ours.Pending...), append([]string{}, theirs.Pending...)
	ours.Chains, theirs.Chains = append([]ChainReport{}, ours.Chains...), append([]ChainReport{}, theirs.Chains...)
	return cmp.Diff(ours, theirs)
}

// inGo verifies all mutations, on all processors.
func inGo(all []mutation) (reports []Report, refused []error) {
	reports, refused = make([]Report, len(all)), make([]error, len(all))
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for worker := range workers {
		wg.Go(func() {
			for i := worker; i < len(all); i += workers {
				reports[i], refused[i] = all[i].verify()
			}
		})
	}
	wg.Wait()
	return reports, refused
}

func (m mutation) verify() (Report, error) {
	trust := m.trust
	if m.seen {
		var known []note.Verifier
		for _, key := range trust.CheckpointKeys {
			verifier, err := note.NewVerifier(key)
			if err != nil {
				return Report{}, err
			}
			known = append(known, verifier)
		}
		checkpoint, err := OpenCheckpoint(m.of.signed, known...)
		if err != nil {
			return Report{}, err
		}
		trust.Seen = []Checkpoint{checkpoint}
	}
	var series []io.Reader
	for _, bundle := range m.bundles {
		series = append(series, bytes.NewReader(bundle))
	}
	return VerifySeries(trust, series...)
}

// writeCorpus writes the input of testdata/corpus.mjs: lines that many bundles have in
// common are there once.
func writeCorpus(t *testing.T, to io.Writer, all []mutation) {
	t.Helper()
	out := json.NewEncoder(to)
	out.SetEscapeHTML(false)
	chunks, trusts := map[string]int{}, map[string]int{}
	for _, one := range all {
		text, err := canonicalValue(one.trust)
		must(t, err)
		if _, known := trusts[string(text)]; !known {
			trusts[string(text)] = len(trusts)
			must(t, out.Encode(map[string]any{"trust": string(text)}))
		}
		asked := map[string]any{"trust": trusts[string(text)]}
		bundles := [][]int{}
		for _, bundle := range one.bundles {
			numbers := []int{}
			for _, line := range lines(bundle) {
				if _, known := chunks[string(line)]; !known {
					chunks[string(line)] = len(chunks)
					must(t, out.Encode(map[string]any{"chunk": line}))
				}
				numbers = append(numbers, chunks[string(line)])
			}
			bundles = append(bundles, numbers)
		}
		if asked["bundles"] = bundles; one.seen {
			asked["seen"] = []string{string(one.of.signed)}
		}
		must(t, out.Encode(asked))
	}
}

// inCorpus puts the corpus to verify.mjs, in one process.
func inCorpus(t *testing.T, input io.Reader) []said {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Error("node is not installed: run make test-deps, or install Node.js 20 or newer")
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var talk strings.Builder
	cmd := exec.CommandContext(ctx, node, beside(t, "corpus.mjs"))
	cmd.Stdin, cmd.Stderr = input, &talk
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%v\n%s", err, talk.String())
		return nil
	}
	var answers []said
	for line := range bytes.Lines(out) {
		var answer said
		if err := json.Unmarshal(line, &answer); err != nil {
			t.Error(err)
			return nil
		}
		answers = append(answers, answer)
	}
	return answers
}
