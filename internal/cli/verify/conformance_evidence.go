package verify

import (
	"bytes"
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

func answerCanonical(data []byte) ([]answered, error) {
	return each(data, func(v struct{ Name, Input, Expect, Output, SHA256 string }) (answered, error) {
		got, err := evidence.Canonical([]byte(v.Input))
		a := answered{v.Name, expected(err), v.Expect}
		if err == nil {
			sum := sha256.Sum256(got)
			a.got, a.want = fmt.Sprintf("%s %s %x", a.got, got, sum), fmt.Sprint(a.want, " ", v.Output, " ", v.SHA256)
		}
		return a, nil
	})
}

// answerRecords takes records of ours, and one of the extension document, which
// has a hash and is none of ours.
func answerRecords(data []byte) ([]answered, error) {
	return each(data, func(v struct {
		Name, Body, Stored, Leaf string
		Key                      *evidence.Key
		Prev                     string `json:"prev_record_hash"`
		Hash                     string `json:"record_hash"`
		LeafHash                 string `json:"leaf_hash"`
	},
	) (answered, error) {
		sum := sha256.Sum256([]byte(v.Prev + v.Body))
		a := answered{v.Name, hex.EncodeToString(sum[:]), v.Hash}
		sealed, err := evidence.ParseSealed([]byte(v.Stored))
		if v.Leaf == "" || a.got != a.want {
			a.got, a.want = a.got+expected(err), a.want+"refused"
			return a, nil
		}
		if err != nil {
			return answered{}, err
		}
		if v.Key != nil {
			err = sealed.CheckSignature(*v.Key)
		}
		leaf := evidence.Leaf(sealed)
		a.got = fmt.Sprintf("%s %x %s", expected(errors.Join(err, sealed.CheckHash())), leaf, hexOf(tlog.RecordHash(leaf)))
		a.want = fmt.Sprint("ok ", v.Leaf, " ", v.LeafHash)
		return a, nil
	})
}

func hexOf(hash tlog.Hash) string { return hex.EncodeToString(hash[:]) }

// answerTree grows a tree leaf by leaf, and proves every entry of it and every
// beginning.
func answerTree(data []byte) ([]answered, error) {
	var v struct {
		Leaves, Roots          []string
		Inclusion, Consistency [][]string
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, err
	}
	var stored evidence.Hashes
	var out []answered
	for n := range v.Leaves {
		leaf, err := hex.DecodeString(v.Leaves[n])
		if err != nil || len(v.Roots) != len(v.Leaves)+1 || len(v.Inclusion) != len(v.Leaves) || len(v.Consistency) != len(v.Leaves) {
			return nil, errUnreadable
		}
		added, _, root, err := evidence.Grow(int64(n), stored, [][]byte{leaf})
		if err != nil {
			return nil, err
		}
		stored = append(stored, added...)
		out = append(out, answered{fmt.Sprintf("root of %d", n+1), hexOf(root), v.Roots[n+1]})
	}
	size := int64(len(v.Leaves))
	for n := range size {
		inclusion, err := tlog.ProveRecord(size, n, stored)
		consistency, errTree := tlog.ProveTree(size, n+1, stored)
		if err := errors.Join(err, errTree); err != nil {
			return nil, err
		}
		out = append(out, answered{fmt.Sprintf("inclusion of %d", n), hexesOf(inclusion), fmt.Sprint(v.Inclusion[n])},
			answered{fmt.Sprintf("consistency from %d", n+1), hexesOf(consistency), fmt.Sprint(v.Consistency[n])})
	}
	return out, nil
}

func hexesOf(hashes []tlog.Hash) string {
	var out []string
	for _, hash := range hashes {
		out = append(out, hexOf(hash))
	}
	return fmt.Sprint(out)
}

func answerProofs(data []byte) ([]answered, error) {
	var file struct {
		Trust  json.RawMessage
		Proofs []struct{ Name, Expect, Record, Proof string }
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	trust, err := evidence.ParseTrust(file.Trust)
	var out []answered
	for _, v := range file.Proofs {
		_, err := evidence.VerifyRecord([]byte(v.Record), []byte(v.Proof), trust)
		out = append(out, answered{v.Name, expected(err), v.Expect})
	}
	return out, err
}

func answerBundles(data []byte) ([]answered, error) {
	var file struct {
		Trust   json.RawMessage
		Bundles []struct {
			Name, Verdict, Bundle string
			Problems              []string
			Bodies                *evidence.BodyReport // where the vector counts them
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	trust, err := evidence.ParseTrust(file.Trust)
	if err != nil {
		return nil, err
	}
	var out []answered
	for _, v := range file.Bundles {
		report, err := evidence.Verify(bytes.NewReader([]byte(v.Bundle)), trust)
		if err != nil {
			return nil, err
		}
		got := []string{}
		for _, problem := range report.Problems {
			got = append(got, fmt.Sprintf("%s@%d", problem.Kind, problem.Line))
		}
		a := answered{v.Name, fmt.Sprint(report.Verdict(), got), fmt.Sprint(v.Verdict, v.Problems)}
		if v.Bodies != nil {
			a.got, a.want = fmt.Sprint(a.got, report.Bodies), fmt.Sprint(a.want, *v.Bodies)
		}
		out = append(out, a)
	}
	return out, nil
}

// auditVector is one vector of audits.json.
type auditVector struct {
	Name, Trust, Verdict, Bundle string
	Seen                         []string
	Problems                     []struct {
		Kind     string
		Line     int
		RecordID string `json:"record_id"`
	}
}

func answerAudits(data []byte) ([]answered, error) {
	var file struct {
		Trusts map[string]json.RawMessage
		Audits []auditVector
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	var out []answered
	for _, v := range file.Audits {
		trust, err := evidence.ParseTrust(file.Trusts[v.Trust])
		if err != nil {
			return nil, err
		}
		got, err := v.answer(trust)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.Name, err)
		}
		want := v.Verdict
		for _, problem := range v.Problems {
			want += fmt.Sprintf(" %s@%d %s", problem.Kind, problem.Line, problem.RecordID)
		}
		out = append(out, answered{v.Name, got, want})
	}
	return out, nil
}

func (v auditVector) answer(trust evidence.Trust) (string, error) {
	if err := keepSeen(&trust, v.Seen); err != nil {
		return "", err
	}
	report, err := evidence.Verify(bytes.NewReader([]byte(v.Bundle)), trust)
	if err != nil {
		return "", err
	}
	got := string(report.Verdict())
	for _, problem := range report.Problems {
		got += fmt.Sprintf(" %s@%d %s", problem.Kind, problem.Line, problem.RecordID)
	}
	return got, nil
}

// answerPeriods verifies series of bundles.
func answerPeriods(data []byte) ([]answered, error) {
	var file struct {
		Trust  json.RawMessage
		Series []struct {
			Name, Verdict                      string
			Seen, Recorders, Problems, Bundles []string
			From                               *evidence.FromReport
			Earlier                            []string `json:"chains_before"`
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	var out []answered
	for _, v := range file.Series {
		trust, err := evidence.ParseTrust(file.Trust)
		if err != nil {
			return nil, err
		}
		if err := keepSeen(&trust, v.Seen); err != nil {
			return nil, err
		}
		if err := keepRecorders(&trust, v.Recorders); err != nil {
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
		got := []string{}
		for _, p := range report.Problems {
			at := fmt.Sprint(p.Line)
			if p.Bundle > 0 {
				at = fmt.Sprintf("%d:%d", p.Bundle, p.Line)
			}
			got = append(got, fmt.Sprintf("%s@%s", p.Kind, at))
		}
		out = append(out, answered{v.Name, fmt.Sprint(report.Verdict(), got, fromOf(report.From), report.Earlier), fmt.Sprint(v.Verdict, v.Problems, fromOf(v.From), v.Earlier)})
	}
	return out, nil
}

func fromOf(f *evidence.FromReport) evidence.FromReport {
	if f == nil {
		return evidence.FromReport{}
	}
	return *f
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
