package api

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"time"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// maxDataValues is how many values of trusted results are kept of one holder.
const maxDataValues = 20_000

// Data keeps what callers have read in the issuer's store (ADR 149).
type Data struct {
	Store     issuer.Store
	Pseudonym func(agent, principal string) string // keyed, and the same after a restart
	Keep      time.Duration
	Now       func() time.Time
}

// who is a user as the store knows them.
func (d Data) who(by gate.Reading) string { return d.Pseudonym("data", by.Principal) }

// digest says nothing of a value to a reader of the store without the server's key.
func (d Data) digest(v gate.Value) []byte {
	mac := hmac.New(sha256.New, []byte(d.Pseudonym("data", "key of values")))
	for _, part := range []string{v.Operation, v.Path, v.Value.String()} {
		sum := sha256.Sum256([]byte(part))
		mac.Write(sum[:])
	}
	return mac.Sum(nil)
}

// Reached implements [gate.DataBook].
func (d Data) Reached(ctx context.Context, by gate.Reading) ([]gate.Reached, error) {
	var out []gate.Reached
	err := d.Store.View(ctx, func(r issuer.Reader) error {
		labels, err := r.DataLabels(by.Holders, d.who(by), d.Now())
		for _, l := range labels {
			out = append(out, gate.Reached{Label: gate.Label{Source: l.Source, Untrusted: l.Untrusted, Confidential: l.Confidential}, First: l.Since})
		}
		return err
	})
	return out, err
}

// HasRead implements [gate.DataBook].
func (d Data) HasRead(ctx context.Context, by gate.Reading, values []gate.Value) ([]bool, error) {
	digests, out := make([][]byte, len(values)), make([]bool, len(values))
	for n, v := range values {
		digests[n] = d.digest(v)
	}
	err := d.Store.View(ctx, func(r issuer.Reader) error {
		read, err := r.DataValues(by.Holders, d.who(by), by.Task, digests, d.Now())
		for n := range digests {
			out[n] = read[string(digests[n])]
		}
		return err
	})
	return out, err
}

// Note keeps a label of data that is about to reach a reader. A label that was noted lately
// costs no write.
func (d Data) Note(ctx context.Context, by gate.Reading, l gate.Label) error {
	_, err := d.note(ctx, by, l)
	return err
}

// note is Note, and returns until when the label stays with all the holders.
func (d Data) note(ctx context.Context, by gate.Reading, l gate.Label) (until time.Time, err error) {
	now := d.Now()
	label := issuer.DataLabel{Source: l.Source, Untrusted: l.Untrusted, Confidential: l.Confidential, Since: now, Until: now.Add(d.Keep)}
	var missing []string
	err = d.Store.View(ctx, func(r issuer.Reader) error {
		missing, until = nil, label.Until
		for _, holder := range by.Holders {
			has, err := r.DataLabels([]string{holder}, d.who(by), now)
			if err != nil {
				return err
			}
			end, ok := lately(has, label, now.Add(d.Keep/2))
			if !ok {
				missing = append(missing, holder)
			} else if end.Before(until) {
				until = end
			}
		}
		return nil
	})
	if err != nil || len(missing) == 0 {
		return until, err
	}
	return until, d.Store.Update(issuer.InTime(ctx), func(tx issuer.Tx) error {
		if err := tx.ForgetData(now); err != nil {
			return err
		}
		for _, holder := range missing {
			if err := tx.PutDataLabel(holder, d.who(by), label); err != nil {
				return err
			}
		}
		return nil
	})
}

// lately returns the end of a label that is there until a time at least.
func lately(all []issuer.DataLabel, l issuer.DataLabel, until time.Time) (end time.Time, ok bool) {
	for _, one := range all {
		if one.Source == l.Source && one.Untrusted == l.Untrusted && one.Confidential == l.Confidential && one.Until.After(until) {
			return one.Until, true
		}
	}
	return time.Time{}, false
}

// Earn keeps values that a reader got from a trusted result.
func (d Data) Earn(ctx context.Context, by gate.Reading, values []gate.Value) error {
	digests := make([][]byte, len(values))
	for n, v := range values {
		digests[n] = d.digest(v)
	}
	return d.Store.Update(issuer.InTime(ctx), func(tx issuer.Tx) error {
		for _, holder := range by.Holders {
			if err := tx.PutDataValues(holder, d.who(by), by.Task, digests, d.Now().Add(d.Keep), maxDataValues); err != nil {
				return err
			}
		}
		return nil
	})
}
