package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/powerbox-project/powerbox/evidence"
)

func answerCanonical(v struct{ Input string }) (any, error) {
	got, err := evidence.Canonical([]byte(v.Input))
	if err != nil {
		return map[string]string{"expect": expected(err)}, nil //nolint:nilerr // that is the answer
	}
	sum := sha256.Sum256(got)
	return map[string]string{"expect": "ok", "output": string(got), "sha256": hex.EncodeToString(sum[:])}, nil
}

// answerRecords takes records of ours, and one of the extension document, which
// has a hash, is none of ours and has no leaf.
func answerRecords(v struct {
	Body, Stored string
	Key          *evidence.Key
	Prev         string `json:"prev_record_hash"`
},
) (any, error) {
	sum := sha256.Sum256([]byte(v.Prev + v.Body))
	out := map[string]string{"record_hash": hex.EncodeToString(sum[:])}
	sealed, err := evidence.ParseSealed([]byte(v.Stored))
	if err != nil {
		return out, nil //nolint:nilerr // it is none of ours
	}
	if v.Key != nil {
		err = sealed.CheckSignature(*v.Key)
	}
	if err := errors.Join(err, sealed.CheckHash()); err != nil {
		return nil, err
	}
	leaf := evidence.Leaf(sealed)
	out["leaf"], out["leaf_hash"] = hex.EncodeToString(leaf), hexOf(tlog.RecordHash(leaf))
	return out, nil
}

func hexOf(hash tlog.Hash) string { return hex.EncodeToString(hash[:]) }

// answerTree grows a tree leaf by leaf, and proves every entry of it and every
// beginning.
func answerTree(v struct{ Leaves []string }) (any, error) {
	var stored evidence.Hashes
	_, _, root, err := evidence.Grow(0, stored, nil)
	if err != nil {
		return nil, err
	}
	roots := []string{hexOf(root)}
	for n := range v.Leaves {
		leaf, err := hex.DecodeString(v.Leaves[n])
		if err != nil {
			return nil, err
		}
		added, _, root, err := evidence.Grow(int64(n), stored, [][]byte{leaf})
		if err != nil {
			return nil, err
		}
		stored = append(stored, added...)
		roots = append(roots, hexOf(root))
	}
	size := int64(len(v.Leaves))
	inclusions, consistencies := [][]string{}, [][]string{}
	for n := range size {
		inclusion, err := tlog.ProveRecord(size, n, stored)
		consistency, errTree := tlog.ProveTree(size, n+1, stored)
		if err := errors.Join(err, errTree); err != nil {
			return nil, err
		}
		inclusions, consistencies = append(inclusions, hexesOf(inclusion)), append(consistencies, hexesOf(consistency))
	}
	return map[string]any{"roots": roots, "inclusion": inclusions, "consistency": consistencies}, nil
}

func hexesOf(hashes []tlog.Hash) []string {
	out := []string{}
	for _, hash := range hashes {
		out = append(out, hexOf(hash))
	}
	return out
}

func answerProofs(v struct {
	Trust         json.RawMessage
	Record, Proof string
},
) (any, error) {
	trust, err := evidence.ParseTrust(v.Trust)
	if err != nil {
		return nil, err
	}
	_, err = evidence.VerifyRecord([]byte(v.Record), []byte(v.Proof), trust)
	return map[string]string{"expect": expected(err)}, nil
}

// bundleAnswer is what a verifier says of a bundle, or of a series of them.
type bundleAnswer struct {
	Verdict  evidence.Verdict     `json:"verdict"`
	Problems any                  `json:"problems"`
	Bodies   *evidence.BodyReport `json:"bodies,omitempty"`
	From     *evidence.FromReport `json:"from,omitempty"`
	Earlier  []string             `json:"chains_before,omitempty"`
}

func answerBundle(v struct {
	Trust  json.RawMessage
	Bundle string
},
) (any, error) {
	trust, err := evidence.ParseTrust(v.Trust)
	if err != nil {
		return nil, err
	}
	report, err := evidence.Verify(strings.NewReader(v.Bundle), trust)
	if err != nil {
		return nil, err
	}
	return bundleAnswer{Verdict: report.Verdict(), Problems: problemsOf(report), Bodies: &report.Bodies}, nil
}

// problemsOf writes problems as kind@line, in a series as kind@bundle:line.
func problemsOf(report evidence.Report) []string {
	out := []string{}
	for _, p := range report.Problems {
		at := fmt.Sprint(p.Line)
		if p.Bundle > 0 {
			at = fmt.Sprintf("%d:%d", p.Bundle, p.Line)
		}
		out = append(out, fmt.Sprintf("%s@%s", p.Kind, at))
	}
	return out
}

func answerAudit(v struct {
	Trusts        map[string]json.RawMessage
	Trust, Bundle string
	Seen          []string
},
) (any, error) {
	trust, err := evidence.ParseTrust(v.Trusts[v.Trust])
	if err != nil {
		return nil, err
	}
	if err := keepSeen(&trust, v.Seen); err != nil {
		return nil, err
	}
	report, err := evidence.Verify(strings.NewReader(v.Bundle), trust)
	if err != nil {
		return nil, err
	}
	type problem struct {
		Kind     string `json:"kind"`
		Line     int    `json:"line"`
		RecordID string `json:"record_id,omitempty"`
	}
	problems := []problem{}
	for _, p := range report.Problems {
		problems = append(problems, problem{string(p.Kind), p.Line, p.RecordID})
	}
	return bundleAnswer{Verdict: report.Verdict(), Problems: problems}, nil
}

// answerPeriods verifies series of bundles.
func answerPeriods(v struct {
	Trust                    json.RawMessage
	Seen, Recorders, Bundles []string
},
) (any, error) {
	trust, err := evidence.ParseTrust(v.Trust)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(keepSeen(&trust, v.Seen), keepRecorders(&trust, v.Recorders)); err != nil {
		return nil, err
	}
	var series []io.Reader
	for _, bundle := range v.Bundles {
		series = append(series, strings.NewReader(bundle))
	}
	report, err := evidence.VerifySeries(trust, series...)
	if err != nil {
		return nil, err
	}
	return bundleAnswer{Verdict: report.Verdict(), Problems: problemsOf(report), From: report.From, Earlier: report.Earlier}, nil
}

// keepRecorders has a verifier remember lists of recorders.
func keepRecorders(trust *evidence.Trust, texts []string) error {
	for _, text := range texts {
		list, err := evidence.ParseRecorders([]byte(text))
		if err != nil {
			return err
		}
		trust.Recorders = append(trust.Recorders, list)
	}
	return nil
}

// keepSeen has a verifier remember signed checkpoints.
func keepSeen(trust *evidence.Trust, seen []string) error {
	var known []note.Verifier
	for _, key := range trust.CheckpointKeys {
		verifier, err := note.NewVerifier(key)
		if err != nil {
			return err
		}
		known = append(known, verifier)
	}
	for _, signed := range seen {
		checkpoint, err := evidence.OpenCheckpoint([]byte(signed), known...)
		if err != nil {
			return err
		}
		trust.Seen = append(trust.Seen, checkpoint)
	}
	return nil
}
