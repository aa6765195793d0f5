package api

import (
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/shed"
)

// Replay decides recorded decisions again under other policies.
type Replay struct {
	Files map[string]string `json:"files"` // Cedar policies by name; with none, nothing is permitted
	Agent string            `json:"agent,omitempty"`
	Since time.Time         `json:"since,omitzero"`
	Until time.Time         `json:"until,omitzero"`
	Limit int               `json:"limit,omitempty"` // decisions that are looked at, the latest first; 0 for all
}

// ReplayAnswer counts every decision once: the same, those that change, and those that
// cannot be told, by the reason. It names changed ones by record alone.
type ReplayAnswer struct {
	Digest    string         `json:"policy_digest"` // of the policies that were tried
	Decisions int            `json:"decisions"`     // that policy has a part in
	Same      int            `json:"same"`
	Flips     int            `json:"flips"`
	Narrower  int            `json:"narrower"`
	Unknown   map[string]int `json:"not_replayed"`
	Changed   []ReplayChange `json:"changed"` // the latest first, at most [maxReplayChanges]
	More      bool           `json:"more,omitempty"`
}

// ReplayChange is a decision that is another one under the policies that were tried.
type ReplayChange struct {
	Record    string    `json:"record"`
	Time      time.Time `json:"time"`
	Agent     string    `json:"agent"`
	Action    string    `json:"action"`
	Requester string    `json:"requester"`
	Operation string    `json:"operation"`
	Was       string    `json:"was"`
	Becomes   string    `json:"becomes"` // ALLOW, DENY, or ALLOW with less
}

// maxReplayChanges is how many changes are named. All are counted.
const maxReplayChanges = 1000

// replayPage is how many records are read at a time.
const replayPage = 1000

func (a *Admin) replay(r *http.Request) (any, error) {
	var q Replay
	if err := decode(r, &q); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name, text := range q.Files {
		files[name] = []byte(text)
	}
	policies, err := a.Policies(files)
	if err != nil {
		return nil, status{http.StatusBadRequest, err.Error()}
	}
	out := ReplayAnswer{Digest: policies.Digest(), Unknown: map[string]int{}, Changed: []ReplayChange{}}
	query := issuer.RecordQuery{Agent: q.Agent, Since: q.Since, Until: q.Until, Scan: replayPage}
	for {
		var page issuer.RecordPage
		if err := a.Store.View(r.Context(), func(rd issuer.Reader) error {
			var err error
			page, err = rd.Records(query)
			return err
		}); err != nil {
			return nil, err
		}
		shed.Progress(r.Context())
		for _, s := range page.Records {
			if q.Limit > 0 && out.Decisions >= q.Limit {
				out.More = true
				return out, nil
			}
			record := s.Record()
			replayed, err := a.Issuer.Replay(r.Context(), policies, record)
			if err != nil {
				return nil, err
			}
			out.count(record, replayed)
		}
		if query.Before = page.Next; page.Next == "" {
			return out, nil
		}
	}
}

func (a *ReplayAnswer) count(r evidence.Record, replayed issuer.Replayed) {
	change := ReplayChange{
		Record: r.ID, Time: r.Time, Agent: r.AgentID, Action: r.ActionType, Requester: r.Details.Requester, Operation: replayed.Operation, Was: string(r.Decision),
	}
	switch replayed.Fate {
	case issuer.FateNone:
		return
	case issuer.FateSame:
		a.Same++
	case issuer.FateUnknown:
		a.Unknown[replayed.Why]++
	case issuer.FateNarrower:
		a.Narrower++
		change.Becomes = string(evidence.Allow) + " with less"
	case issuer.FateFlips:
		a.Flips++
		change.Becomes = string(evidence.Deny)
		if r.Decision == evidence.Deny {
			change.Becomes = string(evidence.Allow)
		}
	}
	a.Decisions++
	if change.Becomes != "" && len(a.Changed) < maxReplayChanges {
		a.Changed = append(a.Changed, change)
	}
}
