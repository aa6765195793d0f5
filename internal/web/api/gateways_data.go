package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/remote/link"
)

// RemoteData keeps for remote gateways what callers have read (ADR 149).
type RemoteData struct {
	Book Data
	// Labelled is what the gateway of an agent may tell and ask, as configured now.
	Labelled func(agent string) Labelled
}

// Labelled is what the gateway of one agent may say of data: the labels of its results,
// the values that rules want from them, and the values that its own rules want.
type Labelled struct {
	Labels []gate.Label
	Earned map[string][]string // paths of results by operation of the agent, all trusted
	Asked  map[string][]string // paths of results by operation of any agent
}

// data answers a gateway about labels of results. A gateway tells only of its agent's
// results, and asks only about the values that a rule of its agent names.
func (g *Gateways) data(r *http.Request, of issuer.Gateway, body []byte) (any, error) {
	var q link.DataQuery
	if err := decodeBytes(body, &q); err != nil {
		return nil, err
	}
	if g.Data == nil {
		return nil, status{http.StatusConflict, "data.mode is off at this server"}
	}
	if len(q.Holders) == 0 {
		return nil, status{http.StatusBadRequest, "holders: want at least one"}
	}
	return g.Data.answer(r.Context(), of.Agent, q)
}

func (d *RemoteData) answer(ctx context.Context, agent string, q link.DataQuery) (out link.DataAnswer, err error) {
	by, may := gate.Reading{Holders: q.Holders, Principal: q.Principal, Task: q.Task}, d.Labelled(agent)
	switch q.Do {
	case link.DataReached:
		return d.reached(ctx, by)
	case link.DataNote:
		return d.note(ctx, may, by, q.Label)
	case link.DataHasRead:
		values, err := valuesIn(q.Values, may.Asked)
		if err == nil {
			out.Read, err = d.Book.HasRead(ctx, by, values)
		}
		return out, err
	case link.DataEarn:
		values, err := valuesIn(q.Values, may.Earned)
		if err == nil {
			err = d.Book.Earn(ctx, by, values)
		}
		return out, err
	}
	return out, status{http.StatusBadRequest, "do is none of reached, read, note and earn"}
}

func (d *RemoteData) reached(ctx context.Context, by gate.Reading) (out link.DataAnswer, err error) {
	labels, err := d.Book.Reached(ctx, by)
	for _, l := range labels {
		out.Labels = append(out.Labels, link.DataLabel{Source: l.Source, Untrusted: l.Untrusted, Confidential: l.Confidential, First: l.First.UnixMilli()})
	}
	return out, err
}

func (d *RemoteData) note(ctx context.Context, may Labelled, by gate.Reading, l *link.DataLabel) (link.DataAnswer, error) {
	if l == nil {
		return link.DataAnswer{}, status{http.StatusBadRequest, "want a label"}
	}
	label := gate.Label{Source: l.Source, Untrusted: l.Untrusted, Confidential: l.Confidential}
	if !slices.Contains(may.Labels, label) {
		return link.DataAnswer{}, status{http.StatusForbidden, "the label is none of the results of this gateway's agent"}
	}
	until, err := d.Book.note(ctx, by, label)
	return link.DataAnswer{Until: until.Unix()}, err
}

// valuesIn are the values of a question, each at one of the operations and paths.
func valuesIn(asked []link.DataValue, at map[string][]string) ([]gate.Value, error) {
	var out []gate.Value
	for _, one := range asked {
		if !slices.Contains(at[one.Operation], one.Path) {
			return nil, status{http.StatusForbidden, "no rule wants a value of that operation and path from this gateway"}
		}
		v, err := powerbox.ParseValue(one.Value)
		if err != nil {
			return nil, status{http.StatusBadRequest, "values: " + err.Error()}
		}
		out = append(out, gate.Value{Operation: one.Operation, Path: one.Path, Value: v})
	}
	return out, nil
}
