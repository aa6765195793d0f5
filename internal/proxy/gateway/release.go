package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/a2apb"
)

// Release makes approved calls until ctx ends.
func (g *Gateway) Release(ctx context.Context) {
	if g.config.Releases != nil {
		Release(ctx, g.config.Releases, func() *Gateway { return g })
	}
}

// Release makes approved calls until ctx ends, each by the gateway that is there
// when its turn comes.
func Release(ctx context.Context, calls Releases, now func() *Gateway) {
	// A look now and then, should a word have been lost.
	tick := time.NewTicker(releaseEvery)
	defer tick.Stop()
	// An agent that takes its time holds up no call to another one.
	var made sync.WaitGroup
	defer made.Wait()
	room := make(chan struct{}, maxReleased)
	for {
		changed := calls.Changed()
		for now().releaseOne(ctx, &made, room) {
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
		}
	}
}

// How often it is looked for approved calls, and how long one may take.
const (
	releaseEvery = 2 * time.Second
	releaseTime  = 5 * time.Minute
	releaseDrain = 10 * time.Second
	// maxReleased is how many are made at a time.
	maxReleased = 32
)

// releaseOne begins to make one approved call and reports whether there was one.
// While revocations are not known, as just after a start, they wait: people
// approve a call once, and it would be refused.
func (g *Gateway) releaseOne(ctx context.Context, made *sync.WaitGroup, room chan struct{}) bool {
	if g.config.Gate.Revocations.Stale(false) {
		return false
	}
	select {
	case room <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	r, ok, err := g.config.Releases.Take(ctx)
	if err != nil && ctx.Err() == nil {
		g.config.Log.ErrorContext(ctx, "approved calls cannot be looked for", slog.Any("error", err))
	}
	if err != nil || !ok {
		<-room
		return false
	}
	made.Go(func() {
		defer func() { <-room }()
		g.makeCall(ctx, r)
	})
	return true
}

// makeCall makes an approved call and notes what became of it.
func (g *Gateway) makeCall(ctx context.Context, r Released) {
	// One that was begun continues to its end, so that its outcome is known; when the
	// server ends, for a while.
	ending := ctx
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	defer context.AfterFunc(ending, func() { time.AfterFunc(releaseDrain, cancel) })()
	w, x, err := g.again(ctx, r)
	text, decision, failed := "", "", false
	var answer []byte
	switch {
	case err != nil:
		text, failed = err.Error(), true
	default:
		decision = x.notes.verdict.Record.ID
		answer, text, failed = w.result(x)
	}
	if err := g.config.Releases.Made(context.WithoutCancel(ctx), r.Question, failed, decision, text, answer); err != nil {
		g.config.Log.ErrorContext(ctx, "what became of an approved call was not noted", slog.String("question", r.Question), slog.Any("error", err))
	}
}

// again makes a held call from its stored form: decided anew, under the
// capability that was given for it alone.
func (g *Gateway) again(ctx context.Context, r Released) (*bufferedAnswer, *decoded, error) {
	a, ok := g.all()[r.Agent]
	var p storedCall
	if err := json.Unmarshal(r.Request, &p); err != nil || !ok {
		return nil, nil, errors.New("the call cannot be made: what was kept of it cannot be read")
	}
	request, err := http.NewRequestWithContext(ctx, p.Method, p.URL, bytes.NewReader(p.Body))
	if err != nil {
		return nil, nil, errors.New("the call cannot be made: what was kept of it cannot be read")
	}
	request.Header = p.Header
	if p.Binding == a2a.GRPC {
		request.ProtoMajor, request.Proto = 2, "HTTP/2.0"
	}
	from := &received{agent: a, request: request, binding: p.Binding, skill: p.Skill, trace: within(p.Trace), notes: &notes{}}
	if p.Binding == a2a.HTTPJSON {
		from.path = pathBelow(request, p.Skill)
	}
	by := &identified{
		received: from, consumed: true, released: &r,
		caller: identity.Caller{Principal: p.User, Groups: p.Groups, Roles: p.Roles, Agent: p.Name, Holder: identity.Holder{ID: p.Holder}},
	}
	x := &decoded{identified: by, body: p.Body, proof: p.Body}
	if by.mode, err = g.config.Mode(ctx, a.ID); err == nil {
		x.view, err = a.view(ctx)
	}
	if err != nil {
		return nil, nil, errors.New("the agent behind could not be reached when the call was approved; send the call again")
	}
	x.mode = by.mode
	if bindingOf(x.binding).decode(x, powerbox.Limits{Bytes: g.config.BodyLimit, Depth: maxDepth}); x.wrong != nil {
		return nil, nil, x.wrong
	}
	if mode, err := g.modeNow(ctx, x, true); err == nil && mode != gate.Observe {
		x.mode = mode
	} else {
		x.mode = gate.Require
	}
	w := &bufferedAnswer{header: http.Header{}}
	g.dispatch(w, x)
	return w, x, nil
}

// bufferedAnswer is an answer without a waiting connection.
type bufferedAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (w *bufferedAnswer) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *bufferedAnswer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements [http.ResponseWriter].
func (w *bufferedAnswer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.body.Len()+len(p) > maxAnswer {
		return 0, errors.New("the answer is larger than 16 MiB")
	}
	return w.body.Write(p)
}

// result is what came of a call: the answer as JSON, or why it failed.
func (w *bufferedAnswer) result(x *decoded) (answer []byte, text string, failed bool) {
	body := w.body.Bytes()
	kind, _, _ := mime.ParseMediaType(w.header.Get("Content-Type"))
	var err error
	switch {
	case x.call.Binding == a2a.GRPC:
		body, err = w.messages(x)
	case kind == typeEvents:
		var events [][]byte
		frames := a2a.NewFrames(maxAnswer, func(event []byte, whole bool) {
			if whole {
				events = append(events, bytes.Clone(event))
			}
		})
		_, _ = frames.Write(body) // never fails
		frames.Close()
		body, err = a2a.Folded(events)
	}
	if err != nil {
		return nil, "the call failed: " + err.Error(), true
	}
	if len(body) > maxAnswer { // in JSON it can be larger than it came
		return nil, "the call was made, and its answer cannot be kept: as JSON it is larger than 16 MiB", true
	}
	a, good := a2a.ReadAnswer(body)
	if !good || w.status >= http.StatusBadRequest {
		if a.Text == "" {
			a.Text = "the agent behind answered with HTTP status " + http.StatusText(w.status)
		}
		return nil, a.Text, true
	}
	return bytes.Clone(body), "", false
}

// messages is the answer of gRPC as JSON: of one message, or of a stream of them.
func (w *bufferedAnswer) messages(x *decoded) ([]byte, error) {
	var events [][]byte
	var err error
	frames := a2apb.NewFrames(maxAnswer, func(message []byte, whole bool) {
		event, wrong := a2apb.JSON(x.call.Wire, message)
		if !whole {
			wrong = errors.New("a message is too large, or compressed")
		}
		events, err = append(events, event), errors.Join(err, wrong)
	})
	_, _ = frames.Write(w.body.Bytes()) // never fails
	switch {
	case err != nil:
		return nil, err
	case len(events) == 0:
		return nil, errors.New(cmp.Or(w.header.Get("Grpc-Message"), "the agent behind answered nothing"))
	case !x.call.Streaming:
		return events[0], nil
	}
	return a2a.Folded(events)
}
