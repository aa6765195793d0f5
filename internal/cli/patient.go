package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// patient calls a server whose answer may take longer than [CallTimeout], such as all evidence
// of a store. The answer must begin in that time, and each piece must come as long after the
// one before at most.
type patient struct {
	client *http.Client
	most   time.Duration
}

// patientAs is a client without its limit for a whole answer.
func patientAs(client *http.Client, most time.Duration) patient {
	own := *client
	own.Timeout = 0
	return patient{&own, most}
}

func (p patient) do(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	silence := time.AfterFunc(p.most, func() { cancel(fmt.Errorf("it sent nothing for %v", p.most)) })
	response, err := p.client.Do(request.WithContext(ctx)) //nolint:bodyclose,gosec // with the answer; the operator names the server
	if err != nil {
		silence.Stop()
		if why := context.Cause(ctx); why != nil {
			err = why
		}
		cancel(nil)
		return nil, err
	}
	silence.Stop() // the reader may take its time
	response.Body = &pieces{ReadCloser: response.Body, p: p, silence: silence, ctx: ctx, cancel: cancel}
	return response, nil
}

// pieces is the body of an answer that ends if no piece comes for too long.
type pieces struct {
	io.ReadCloser
	p       patient
	silence *time.Timer
	ctx     context.Context //nolint:containedctx // lives as long as the answer
	cancel  context.CancelCauseFunc
}

// Read implements [io.Reader].
func (b *pieces) Read(into []byte) (int, error) {
	b.silence.Reset(b.p.most)
	n, err := b.ReadCloser.Read(into)
	b.silence.Stop()
	if why := context.Cause(b.ctx); why != nil && err != nil && !errors.Is(err, io.EOF) {
		err = why
	}
	return n, err
}

// Close implements [io.Closer].
func (b *pieces) Close() error {
	b.silence.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}
