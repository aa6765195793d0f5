package reliability

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

// Judgement compares a town's acknowledgements with its records.
type Judgement struct {
	Records int   // in the evidence
	Lost    int   // acknowledged, and not known
	Size    int64 // of the log
}

// settles is how long a gateway has to ship its spool.
const settles = 90 * time.Second

// judgeAll compares the acknowledged results with the town's records. The load must have
// been stopped, and everything run again. seen are checkpoints of judgements before; the
// newest is returned.
func (t *Town) judgeAll(ctx context.Context, seen []evidence.Checkpoint) (Judgement, evidence.Checkpoint, error) {
	var j Judgement
	var bundle []byte
	var missing []string
	var wrong []string
	told := t.ledger.told()
	err := until(ctx, settles, func() error {
		var err error
		if bundle, missing, err = t.recorded(ctx, told); err != nil {
			return err
		}
		if t.ledger.compared, wrong = t.ledger.compare(bundle); len(wrong) > 0 {
			return errors.New(wrong[0])
		}
		return nil
	})
	if len(missing) > 0 || err != nil && bundle == nil {
		t.ledger.finding("lost: %v", err)
		j.Lost += len(missing)
	}
	for _, w := range wrong {
		t.ledger.finding("not as on record: %s", w)
	}
	checkpoint, err := t.verify(ctx, bundle, seen, &j)
	if err != nil {
		return j, checkpoint, err
	}
	return j, checkpoint, t.known(ctx, &j)
}

// recorded exports the evidence, and names the decisions that someone was told of
// and that are not in it, which is an error, too.
func (t *Town) recorded(ctx context.Context, told []string) (bundle []byte, missing []string, err error) {
	if bundle, err = t.fetch(ctx, http.MethodGet, "/v1/evidence/bundle", nil); err != nil {
		return nil, nil, err
	}
	found := recordsOf(bundle)
	missing = slices.DeleteFunc(slices.Clone(told), func(id string) bool { return found[id] })
	if len(missing) > 0 {
		err = fmt.Errorf("%d decisions that were acknowledged are not in the evidence, such as %s", len(missing), missing[0])
	}
	return bundle, missing, err
}

// recordsOf are the ids of the records of a bundle.
func recordsOf(bundle []byte) map[string]bool {
	const member = `"record_id":"`
	found := map[string]bool{}
	for rest := bundle; ; {
		at := bytes.Index(rest, []byte(member))
		if at < 0 {
			break
		}
		rest = rest[at+len(member):]
		if end := bytes.IndexByte(rest, '"'); end >= 0 {
			found[string(rest[:end])] = true
		}
	}
	return found
}

// verify has the library judge a bundle against the checkpoints that were seen before,
// and has the command judge it as a stranger would.
func (t *Town) verify(ctx context.Context, bundle []byte, seen []evidence.Checkpoint, j *Judgement) (evidence.Checkpoint, error) {
	raw, err := t.fetch(ctx, http.MethodGet, "/v1/evidence/trust", nil)
	if err != nil {
		return evidence.Checkpoint{}, err
	}
	trust, err := evidence.ParseTrust(bytes.TrimSpace(raw))
	if err != nil {
		return evidence.Checkpoint{}, err
	}
	trust.Seen = seen
	report, err := evidence.VerifyParallel(trust, runtime.NumCPU(), bytes.NewReader(bundle))
	if err != nil {
		return evidence.Checkpoint{}, err
	}
	if report.Verdict() != evidence.OK {
		t.ledger.finding("the evidence does not verify: %v %+v", report.Verdict(), report.Problems[:min(3, len(report.Problems))])
	}
	j.Records = report.Records
	for name, data := range map[string][]byte{"bundle.jsonl": bundle, "trust.json": raw} {
		if err := os.WriteFile(filepath.Join(t.Dir, name), data, 0o600); err != nil {
			return evidence.Checkpoint{}, err
		}
	}
	if out, err := t.run(ctx, t.Binary, "evidence", "verify", "bundle.jsonl", "--trust", "trust.json"); err != nil {
		t.ledger.finding("powerbox evidence verify: %v\n%s", err, out)
	}
	c := evidence.Checkpoint{Origin: report.Origin, Size: report.Size}
	root, err := base64.StdEncoding.DecodeString(report.Root)
	copy(c.Root[:], root)
	j.Size = c.Size
	return c, err
}

// known asks after everything else that was acknowledged.
func (t *Town) known(ctx context.Context, j *Judgement) error {
	t.ledger.mu.Lock()
	issued, revoked, registered := maps.Clone(t.ledger.issued), maps.Clone(t.ledger.revoked), maps.Clone(t.ledger.registered)
	t.ledger.mu.Unlock()
	for id := range issued {
		var answer *statusError
		_, err := t.fetch(ctx, http.MethodGet, "/v1/capabilities/"+url.PathEscape(id), nil)
		if errors.As(err, &answer) && answer.status == http.StatusNotFound {
			j.Lost++
			t.ledger.finding("lost: capability %s", id)
		} else if err != nil {
			return err
		}
	}
	if err := t.listed(ctx, revoked, j); err != nil {
		return err
	}
	for id, r := range registered {
		if a, err := r.client.Status(ctx, id); err != nil || a.Status != "active" {
			j.Lost++
			t.ledger.finding("lost: agent %s: %q %v", id, a.Status, err)
		}
	}
	// They are known, and need not be asked after again.
	t.ledger.mu.Lock()
	t.ledger.registered, t.ledger.issued, t.ledger.revoked = map[string]*registrar{}, map[string]bool{}, map[string]bool{}
	t.ledger.mu.Unlock()
	return t.everywhere(ctx)
}

// listed asks whether everything is revoked of which someone was told so.
func (t *Town) listed(ctx context.Context, revoked map[string]bool, j *Judgement) error {
	for some := range slices.Chunk(slices.Sorted(maps.Keys(revoked)), 100) {
		var known struct {
			Revoked []string `json:"revoked"`
		}
		if err := t.operate(ctx, http.MethodGet, "/v1/revoked?"+url.Values{"id": some}.Encode(), nil, &known); err != nil {
			return err
		}
		for _, id := range some {
			if !slices.Contains(known.Revoked, id) {
				j.Lost++
				t.ledger.finding("lost: the revocation of %s", id)
			}
		}
	}
	return nil
}

// everywhere has every caller use its capabilities, and those that it gave back, at
// every node and gateway: a lease after the last revocation all must agree.
func (t *Town) everywhere(ctx context.Context) error {
	if !pause(ctx, t.Lease) {
		return ctx.Err()
	}
	for _, w := range t.load.workers {
		for range t.behind(w) { // the balancer takes them in turn
			if w.held != nil && !w.unsure {
				w.expect(ctx, *w.held, "retrieve_document", w.handle, yes, "held, afterwards")
			}
			if len(w.given) > 0 {
				back := w.given[len(w.given)-1]
				w.expect(ctx, back.capability, "retrieve_document", back.handle, no, "given back, afterwards")
			}
		}
	}
	return nil
}

// behind is how many are behind a caller's balancer.
func (t *Town) behind(w *worker) int {
	if strings.HasPrefix(w.base, t.doors.url) {
		return t.Gateways
	}
	return t.Nodes
}
