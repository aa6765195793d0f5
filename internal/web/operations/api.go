package operations

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/wire/operators"
)

// API is the operators' interface for one person, in this process. It is the
// [audit.Source] of the server's log.
type API struct{ handler http.Handler }

// Refused is a refusal of the interface.
type Refused struct {
	Status  int
	Message string
}

func (e *Refused) Error() string { return e.Message }

// answer keeps the answer of a handler in memory.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// Get reads a resource into out.
func (a API) Get(ctx context.Context, path string, out any) error {
	_, err := a.call(ctx, http.MethodGet, path, nil, out)
	return err
}

// Do sends a change, and reads the answer into out unless that is nil.
func (a API) Do(ctx context.Context, method, path string, in, out any) error {
	_, err := a.call(ctx, method, path, in, out)
	return err
}

// Pass answers a request of the browser with the interface's own answer, such as a bundle.
func (a API) Pass(w http.ResponseWriter, r *http.Request, path string) error {
	to, err := http.NewRequestWithContext(r.Context(), http.MethodGet, path, nil)
	if err != nil {
		return fmt.Errorf("operations: %w", err)
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		to.Header.Set("Last-Event-ID", last)
	}
	a.handler.ServeHTTP(w, to)
	return nil
}

func (a API) call(ctx context.Context, method, path string, in, out any) (http.Header, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("operations: %w", err)
		}
		body = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, path, body)
	if err != nil {
		return nil, fmt.Errorf("operations: %w", err)
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	said := &answer{header: http.Header{}}
	a.handler.ServeHTTP(said, r)
	if said.status >= http.StatusBadRequest {
		var problem struct {
			Detail string `json:"detail"`
		}
		if json.Unmarshal(said.body.Bytes(), &problem) != nil || problem.Detail == "" {
			problem.Detail = "the operators' interface answers " + strconv.Itoa(said.status)
		}
		return nil, &Refused{said.status, problem.Detail}
	}
	if out != nil {
		if err := json.Unmarshal(said.body.Bytes(), out); err != nil {
			return nil, fmt.Errorf("operations: the answer of %s: %w", path, err)
		}
	}
	return said.header, nil
}

// Records returns one page of records, and the id that the next one begins before, "" for
// none. The server bounds how far one page looks: a page can be empty and have a next.
func (a API) Records(ctx context.Context, query url.Values) ([]evidence.Sealed, string, error) {
	var raw []json.RawMessage
	header, err := a.call(ctx, http.MethodGet, "/v1/records?"+query.Encode(), nil, &raw)
	if err != nil {
		return nil, "", err
	}
	out := make([]evidence.Sealed, len(raw))
	for i, data := range raw {
		if out[i], err = evidence.ParseSealed(data); err != nil {
			return nil, "", fmt.Errorf("operations: a record: %w", err)
		}
	}
	return out, header.Get(operators.NextHeader), nil
}

// Each implements [audit.Source].
func (a API) Each(ctx context.Context, q audit.Query) iter.Seq2[evidence.Record, error] {
	return audit.EachOf(ctx, a, q)
}

// Page implements [audit.Pages].
func (a API) Page(ctx context.Context, v url.Values) ([]evidence.Record, string, error) {
	page, next, err := a.Records(ctx, v)
	records := make([]evidence.Record, len(page))
	for i, s := range page {
		records[i] = s.Record()
	}
	return records, next, err
}

// Sealed looks one record up, with its signature.
func (a API) Sealed(ctx context.Context, id string) (evidence.Sealed, error) {
	var raw json.RawMessage
	if err := a.Get(ctx, "/v1/records/"+url.PathEscape(id), &raw); err != nil {
		return evidence.Sealed{}, err
	}
	s, err := evidence.ParseSealed(raw)
	if err != nil {
		return s, fmt.Errorf("operations: record: %w", err)
	}
	return s, nil
}

// Record implements [audit.Source].
func (a API) Record(ctx context.Context, id string) (evidence.Record, error) {
	s, err := a.Sealed(ctx, id)
	if no, ok := err.(*Refused); ok && no.Status == http.StatusNotFound { //nolint:errorlint // it is never wrapped
		return evidence.Record{}, audit.ErrNotThere
	}
	if err != nil {
		return evidence.Record{}, err
	}
	return s.Record(), nil
}
