package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/powerbox-project/powerbox/internal/app"
	"github.com/powerbox-project/powerbox/internal/app/serve"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/proxy/gateway"
)

const (
	verbPowerbox = "powerbox"
	anyForm      = "any" // its door that answers HTTP too
	headerTook   = "Took"
)

// configuration is the server's.
const configuration = `
listen: @LISTEN
issuer: {url: "http://@LISTEN", directory: "@DIR/data"}
identity:
  callers: [{agent: assistant, key: @KEY}]
  guards: [{name: program, token_file: "@DIR/guard.token", agents: [assistant]}]
agents:
  - {id: notes, upstream: "http://@NOTES", mode: scoped}
offers:
  notes: [{id: notes, operations: [read]}]
skills:
  notes: [{skill: read_note, grant: notes, operation: read, effect: read}]
scopes:
  assistant: {notes: [notes/read]}
limits: {denials: 0}
defaults: {request_rate: 0}
doors:
  - {name: edge, listen: @DOOR, grpc_only: true, routes: [{path: /agents/notes, agent: notes}]}
  - {name: any, listen: @ANY, routes: [{path: /agents/notes, agent: notes}]}
`

const card = `{"name":"Notes","description":"n","version":"1.0.0","capabilities":{},"supportedInterfaces":[{"url":"http://%s/invoke","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
"defaultInputModes":["text"],"defaultOutputModes":["text"],"skills":[{"id":"read_note","name":"r","description":"r","tags":[]}]}`

// servePowerbox is the process of the server: as powerbox serve, with the card of the agent,
// and an address that decides as the gateway does and tells how long that took.
func servePowerbox(ctx context.Context, own string) (err error) {
	defer serve.Tune(os.Getenv)()
	c, err := config.Load("powerbox.yaml", os.ReadFile, nil)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	i, err := app.Assemble(ctx, app.Assembly{Config: c, Now: time.Now, Log: log, Notes: io.Discard})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	var fronts []serve.Front
	for at, f := range map[string]serve.Front{
		c.Listen: {Handler: i.Handler}, c.Doors[0].Listen: {Handler: i.Doors[0].Handler, GRPC: i.Doors[0].GRPC}, c.Doors[1].Listen: {Handler: i.Doors[1].Handler},
		own: {Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { decide(i.Gateway(), w, r) })},
	} {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
		if err != nil {
			return errors.Join(err, serve.CloseAll(fronts))
		}
		f.Listener = l
		fronts = append(fronts, f)
	}
	return i.Server(log).Serve(ctx, fronts)
}

// decide has the gateway decide a request, whose body is here before the clock starts.
func decide(g *gateway.Gateway, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(newReader(body)), int64(len(body))
	began := time.Now()
	a := g.Advise(r, gateway.Carries{Answers: true, Bodies: true, Results: true})
	took := time.Since(began)
	if a.Forward == nil {
		http.Error(w, fmt.Sprintf("%d %v %s", a.Status, a.Header, a.Body), http.StatusForbidden)
		return
	}
	w.Header().Set(headerTook, took.String())
}
