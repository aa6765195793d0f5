package api

import (
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// PeriodStatus is a closed period of the log as operators see it.
type PeriodStatus struct {
	Number     int64     `json:"period"`
	First      int64     `json:"first"` // entries before it
	Size       int64     `json:"size"`  // entries up to its end
	Root       string    `json:"root"`
	Closed     time.Time `json:"closed"`
	Archived   bool      `json:"archived"`
	Checkpoint string    `json:"checkpoint"` // signed
}

func periodStatus(p issuer.Period) (PeriodStatus, error) {
	c, err := evidence.ReadCheckpoint(p.Checkpoint)
	return PeriodStatus{p.Number, p.First, p.Size, c.Root.String(), p.Closed, p.Archived, string(p.Checkpoint)}, err
}

func (a *Admin) periods(r *http.Request) (any, error) {
	all, err := a.Issuer.Periods(r.Context())
	out := []PeriodStatus{}
	for _, p := range all {
		s, errPeriod := periodStatus(p)
		out, err = append(out, s), errors.Join(err, errPeriod)
	}
	return out, err
}

// closePeriod closes a period, where there are witnesses with a checkpoint that
// they have cosigned.
func (a *Admin) closePeriod(r *http.Request) (any, error) {
	var signed []byte
	if a.Public.cosigned(r.Context()) {
		var err error
		if signed, err = a.Public.Log.CosignedCheckpoint(r.Context()); err != nil {
			return nil, err
		}
	}
	p, err := a.Issuer.ClosePeriod(r.Context(), operator(r), signed)
	if err != nil {
		return nil, err
	}
	return periodStatus(p)
}

func periodNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, status{http.StatusBadRequest, "period must be the number of one, from 1"}
	}
	return n, nil
}

// archivePeriod takes the records of a period out of the store. Scores count the
// whole history: where a level is asked for it stays.
func (a *Admin) archivePeriod(r *http.Request) (any, error) {
	var body archiving
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	n, err := periodNumber(r.PathValue("period"))
	if err != nil {
		return nil, err
	}
	if a.AsksTrust {
		return nil, status{http.StatusConflict, "levels of trust are asked for, and scores count the whole history: its records stay in the store"}
	}
	p, err := a.Issuer.ArchivePeriod(r.Context(), operator(r), n, body.Root)
	if err != nil {
		return nil, err
	}
	return periodStatus(p)
}

// exportPeriod streams the bundle of one period. It reports an error after the first
// byte as in bundle.
func (a *Admin) exportPeriod(w http.ResponseWriter, r *http.Request) {
	n, err := periodNumber(r.PathValue("period"))
	bodies := r.URL.Query().Get("bodies") == "true"
	if err = errors.Join(err, mayHaveBodies(r, bodies)); err != nil {
		reply(w, r, a.Log, nil, err)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	err = a.Exporter.ExportPeriod(r.Context(), w, a.Gateways.Keys(a.Keys), n, bodies)
	switch {
	case err == nil:
	case errors.Is(err, issuer.ErrArchived):
		problem(w, http.StatusGone, err.Error())
	default:
		a.Log.ErrorContext(r.Context(), "evidence export failed", slog.Any("error", err))
		reply(w, r, a.Log, nil, err)
	}
}
