package link

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox/gate"
)

// What a gateway asks about labels of results (ADR 149).
const (
	DataReached = "reached" // the labels that have reached a reader
	DataHasRead = "read"    // which values a reader got from trusted results
	DataNote    = "note"    // that a label is about to reach a reader
	DataEarn    = "earn"    // that values are about to reach a reader
)

// DataQuery asks what the holders of a call have read, or tells it.
type DataQuery struct {
	Do        string      `json:"do"`
	Holders   []string    `json:"holders"`
	Principal string      `json:"principal,omitempty"` // name of the user, where the session proves it
	Task      string      `json:"task,omitempty"`
	Label     *DataLabel  `json:"label,omitempty"`
	Values    []DataValue `json:"values,omitempty"`
}

// DataLabel is the label of results.
type DataLabel struct {
	Source       string `json:"source"`
	Untrusted    bool   `json:"untrusted,omitempty"`
	Confidential bool   `json:"confidential,omitempty"`
	First        int64  `json:"first,omitempty"` // since when a reader has it, Unix milliseconds
}

// DataValue is one value at a path of the results of an operation.
type DataValue struct {
	Operation string          `json:"operation"`
	Path      string          `json:"path,omitempty"`
	Value     json.RawMessage `json:"value"`
}

// DataAnswer is the answer to the question that was asked.
type DataAnswer struct {
	Labels []DataLabel `json:"labels,omitempty"`
	Read   []bool      `json:"read,omitempty"`
	Until  int64       `json:"until,omitempty"` // until when a noted label stays, Unix seconds
}

// DataRules are the rules about data that a gateway cannot read from the configuration of
// its agent alone: they name operations of other agents, or belong to them.
type DataRules struct {
	// From are the sources of values, by skill of the agent.
	From map[string][]DataFrom `json:"from,omitempty"`
	// Paths are those of the agent's own results that rules of any agent name, by operation.
	Paths map[string][]string `json:"paths,omitempty"`
}

// DataFrom says that an argument may hold what results of an operation hold at a path.
type DataFrom struct {
	Argument  string `json:"argument"`
	Operation string `json:"operation"`
	Path      string `json:"path,omitempty"`
}

// Data keeps what callers have read at the server, for all its gateways.
type Data struct {
	*Remote
	// Observe is set where calls continue without the answers: then a server that did not
	// answer is not waited for again at once.
	Observe bool
	Keep    time.Duration // of labels
	Now     func() time.Time
}

// ask asks one question.
func (d Data) ask(ctx context.Context, by gate.Reading, q DataQuery) (DataAnswer, error) {
	now := d.Now()
	if d.Observe && now.UnixMilli() < d.silent.Load() {
		return DataAnswer{}, errors.New("the server did not answer a moment ago")
	}
	q.Holders, q.Principal, q.Task = by.Holders, by.Principal, by.Task
	var a DataAnswer
	err := d.Client.call(ctx, PathData, q, &a)
	if err != nil {
		d.Log.WarnContext(ctx, "the labels of data cannot be asked for", slog.String("question", q.Do), slog.Any("error", err))
		if d.Observe {
			d.silent.Store(now.Add(silence).UnixMilli())
		}
	}
	return a, err
}

// Reached implements [gate.DataBook].
func (d Data) Reached(ctx context.Context, by gate.Reading) ([]gate.Reached, error) {
	a, err := d.ask(ctx, by, DataQuery{Do: DataReached})
	var out []gate.Reached
	for _, l := range a.Labels {
		out = append(out, gate.Reached{
			Label: gate.Label{Source: l.Source, Untrusted: l.Untrusted, Confidential: l.Confidential}, First: time.UnixMilli(l.First).UTC(),
		})
	}
	return out, err
}

// HasRead implements [gate.DataBook].
func (d Data) HasRead(ctx context.Context, by gate.Reading, values []gate.Value) ([]bool, error) {
	a, err := d.ask(ctx, by, DataQuery{Do: DataHasRead, Values: valuesOf(values)})
	if err == nil && len(a.Read) != len(values) {
		err = errors.New("the server's answer is about other values")
	}
	return a.Read, err
}

// Note keeps a label of data that is about to reach a reader. A label that stays for half
// of its time at least is not noted again.
func (d Data) Note(ctx context.Context, by gate.Reading, l gate.Label) error {
	key := noted(by, l)
	if until, ok := d.labels.get(key); ok && until.After(d.Now().Add(d.Keep/2)) {
		return nil
	}
	a, err := d.ask(ctx, by, DataQuery{Do: DataNote, Label: &DataLabel{Source: l.Source, Untrusted: l.Untrusted, Confidential: l.Confidential}})
	if err == nil {
		d.labels.put(key, time.Unix(a.Until, 0))
	}
	return err
}

// noted names a label of a reader. No two readers have the same name.
func noted(by gate.Reading, l gate.Label) string {
	parts := append([]string{by.Principal, l.Source, strconv.FormatBool(l.Untrusted), strconv.FormatBool(l.Confidential)}, by.Holders...)
	for n, part := range parts {
		parts[n] = strconv.Quote(part)
	}
	return strings.Join(parts, " ")
}

// Earn keeps values of a trusted result.
func (d Data) Earn(ctx context.Context, by gate.Reading, values []gate.Value) error {
	_, err := d.ask(ctx, by, DataQuery{Do: DataEarn, Values: valuesOf(values)})
	return err
}

func valuesOf(values []gate.Value) []DataValue {
	out := make([]DataValue, len(values))
	for n, v := range values {
		out[n] = DataValue{v.Operation, v.Path, v.Value.AppendJSON(nil)}
	}
	return out
}
