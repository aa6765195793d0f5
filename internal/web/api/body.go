package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// bodyAnswer is a detached body with the key of its commitment.
type bodyAnswer struct {
	Record     string `json:"record_id"`
	Commitment string `json:"body_commitment"`
	Key        []byte `json:"key"`
	Body       []byte `json:"body"`
}

// body answers with the body that a record commits to. That there is none any
// more is another answer than that there never was one.
func (a *Admin) body(r *http.Request) (any, error) {
	out := bodyAnswer{Record: r.PathValue("id")}
	err := a.Store.View(r.Context(), func(rd issuer.Reader) error {
		s, err := ownRecord(r, rd, out.Record)
		if err != nil {
			return err
		}
		if out.Commitment = s.Record().Details.BodyCommitment; out.Commitment == "" {
			return status{http.StatusConflict, "the record commits to no body: none was kept"}
		}
		b, err := rd.Body(out.Record)
		if errors.Is(err, issuer.ErrNotFound) {
			return status{http.StatusGone, "the body was erased; the record and its proof stay"}
		}
		if err == nil {
			out.Key, out.Body = b.Key, b.Bytes
		}
		return err
	})
	return out, err
}

// argumentsAnswer is the digest that a record has of arguments, with its key.
type argumentsAnswer struct {
	Record string `json:"record_id"`
	Digest string `json:"arguments_digest"`
	Key    []byte `json:"key"`
}

// argumentsKey answers with the key by which arguments can be held against the digest
// that the record of an execution has of them (AAP-Z4). It is that record's alone.
func (a *Admin) argumentsKey(r *http.Request) (any, error) {
	out := argumentsAnswer{Record: r.PathValue("id")}
	err := a.Store.View(r.Context(), func(rd issuer.Reader) error {
		s, err := ownRecord(r, rd, out.Record)
		if err != nil {
			return err
		}
		record := s.Record()
		var said struct { // of the details of an execution; those of other records have other members
			Digest string `json:"arguments_digest"`
		}
		if err := json.Unmarshal(record.Intent.Details, &said); len(record.Intent.Details) > 0 && err != nil {
			return err
		}
		// The record of an outcome repeats the subject of its decision.
		if of := record.Details.OutcomeOf; of != "" {
			return status{http.StatusConflict, "the record tells an outcome; ask about that of the decision, " + of}
		}
		if said.Digest == "" || a.ArgumentsKey == nil {
			return status{http.StatusConflict, "the record has no digest of arguments; records of executions of Agent Auth do"}
		}
		out.Digest, out.Key = said.Digest, a.ArgumentsKey(record.ID)
		return nil
	})
	return out, err
}

// maxListed is how many bodies an answer lists. The count is of all.
const maxListed = 1000

// ListedBody is a body that an erasure erases.
type ListedBody struct {
	Record    string    `json:"record_id"`
	Agent     string    `json:"agent"`
	Principal string    `json:"principal,omitempty"`
	Time      time.Time `json:"time"`
	Size      int       `json:"size"`
}

// erase erases bodies, and with dry_run tells which it would erase.
func (a *Admin) erase(r *http.Request) (any, error) {
	var asked erasure
	if err := decode(r, &asked); err != nil {
		return nil, err
	}
	e := issuer.Erasure{Records: asked.Records, Agent: asked.Agent, Principal: asked.Principal, Until: asked.Until}
	if asked.DryRun {
		return a.erasable(r, e)
	}
	done, err := a.Issuer.Erase(r.Context(), operator(r), e)
	if err != nil {
		return nil, unknownRecord(err)
	}
	return map[string]any{"erased": done.Bodies, "records": append([]string{}, done.Records...), "scrubbed": done.Scrubbed}, nil
}

// unknownRecord names the record that is not there, so that the others can be erased.
func unknownRecord(err error) error {
	if errors.Is(err, issuer.ErrNotFound) {
		return status{http.StatusNotFound, err.Error() + "; nothing was erased. powerbox evidence list has the ids"}
	}
	return err
}

func (a *Admin) erasable(r *http.Request, e issuer.Erasure) (any, error) {
	// A body that arrives after the listing must not be erased with it.
	until := a.Now()
	if !e.Until.IsZero() {
		until = e.Until
	}
	bodies, err := a.Issuer.BodiesOf(r.Context(), e)
	if err != nil {
		return nil, unknownRecord(err)
	}
	out := []ListedBody{}
	for _, b := range bodies[:min(len(bodies), maxListed)] {
		out = append(out, ListedBody(b))
	}
	return map[string]any{"dry_run": true, "bodies": out, "count": len(bodies), "until": until}, nil
}
