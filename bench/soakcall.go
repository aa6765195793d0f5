package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	v1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/powerbox-project/powerbox/holder"
)

// soakKind is one sort of call.
type soakKind struct {
	name   string
	grpc   bool
	stream bool
	build  func(t *town, params string) (address string, body []byte, err error)
}

func soakKinds() []soakKind {
	rpc := func(method string) func(*town, string) (string, []byte, error) {
		return func(t *town, params string) (string, []byte, error) {
			return t.agentURL(), []byte(`{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":` + params + `}`), nil
		}
	}
	rest := func(path string) func(*town, string) (string, []byte, error) {
		return func(t *town, params string) (string, []byte, error) { return t.agentURL() + path, []byte(params), nil }
	}
	wire := func(method string) func(*town, string) (string, []byte, error) {
		return func(t *town, params string) (string, []byte, error) {
			m := &v1.SendMessageRequest{}
			if err := protojson.Unmarshal([]byte(params), m); err != nil {
				return "", nil, err
			}
			message, err := proto.Marshal(m)
			body := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
			return "https://" + t.grpc + "/lf.a2a.v1.A2AService/" + method, append(body, message...), err
		}
	}
	return []soakKind{
		{name: "JSON-RPC", build: rpc("SendMessage")},
		{name: "JSON-RPC, stream", stream: true, build: rpc("SendStreamingMessage")},
		{name: "HTTP+JSON", build: rest("/message:send")},
		{name: "HTTP+JSON, stream", stream: true, build: rest("/message:stream")},
		{name: "gRPC", grpc: true, build: wire("SendMessage")},
		{name: "gRPC, stream", grpc: true, stream: true, build: wire("SendStreamingMessage")},
	}
}

// soakParams are the parameters of a call.
func soakParams(handle, capability, note string) string {
	return fmt.Sprintf(`{"message":{"messageId":"m-%d","role":"ROLE_USER","parts":[{"data":{"skill":"retrieve_document","arguments":{"note":%q,"resourceHandle":%q}}}]},"metadata":{%q:{"capabilityId":%q}}}`,
		time.Now().UnixNano(), note, handle, holder.ExtensionURI, capability)
}

// soakCaller makes calls of one kind on one connection.
type soakCaller struct {
	town   *town
	kind   soakKind
	client *http.Client
	// what came of the calls
	records   []string // ids of decisions, one for each call that was answered
	latencies []float64
	denied    int
	left      int // streams that were left before their end
	shed      int // calls that the server turned away
	wrong     []error
}

func newSoakCaller(t *town, kind soakKind) *soakCaller {
	transport := &http.Transport{TLSClientConfig: t.tls.Clone(), MaxConnsPerHost: 1, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!kind.grpc)
	transport.Protocols.SetHTTP2(kind.grpc)
	return &soakCaller{town: t, kind: kind, client: &http.Client{Transport: transport, Timeout: time.Minute}}
}

// overloaded is the code of calls that the server turns away: a queue is bounded by time.
const overloaded = "overloaded"

var errShed = errors.New("the call was turned away")

// The calls that are something else than the usual: one in so many.
const (
	everyDenied = 20
	everyLeft   = 30
	everyTask   = 10
)

// run calls until the time is over.
func (c *soakCaller) run(ctx context.Context, until time.Time, capability, handle string) {
	defer c.client.CloseIdleConnections()
	for n := 1; time.Now().Before(until) && len(c.wrong) < 3; n++ {
		denied := n%everyDenied == 0
		leave := c.kind.stream && n%everyLeft == 0 && !denied // a denial is no stream
		note, with := noteMessage, capability
		if c.kind.stream || n%everyTask == 0 {
			note = noteTask
		}
		if denied {
			with = "cap_of_nobody"
		}
		began := time.Now()
		err := c.call(ctx, soakParams(handle, with, note), denied, leave)
		if errors.Is(err, errShed) {
			c.shed++
		} else if err != nil {
			c.wrong = append(c.wrong, fmt.Errorf("%s, call %d: %w", c.kind.name, n, err))
		} else if !denied && !leave {
			c.latencies = append(c.latencies, time.Since(began).Seconds()*1e3)
		}
	}
}

// call makes one call and looks at its answer.
func (c *soakCaller) call(ctx context.Context, params string, denied, leave bool) error {
	address, body, err := c.kind.build(c.town, params)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}
	if c.kind.grpc {
		r.Header.Set("Content-Type", "application/grpc")
		r.Header.Set("TE", "trailers")
	}
	response, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was read, or is left on purpose
	record := response.Header.Get("Powerbox-Decision")
	if record == "" && response.Header.Get("Powerbox-Reason") == overloaded && response.Header.Get("Retry-After") != "" {
		return errShed // it did nothing
	}
	if record == "" {
		return fmt.Errorf("HTTP %s names no decision", response.Status)
	}
	c.records = append(c.records, record)
	if leave {
		c.left++
		_, err := io.ReadFull(response.Body, make([]byte, 16))
		return err
	}
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if was := response.Header.Get("Powerbox-Outcome") == "denied"; was != denied {
		return fmt.Errorf("denied is %v: HTTP %s %.300q %v", was, response.Status, answer, response.Trailer)
	}
	if denied {
		c.denied++
		return nil
	}
	return c.check(response, answer)
}

// check looks whether the whole answer came.
func (c *soakCaller) check(response *http.Response, answer []byte) error {
	switch {
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("HTTP %s: %.300q", response.Status, answer)
	case c.kind.grpc && response.Trailer.Get("Grpc-Status") != "0":
		return fmt.Errorf("gRPC status %q %q", response.Trailer.Get("Grpc-Status"), response.Trailer.Get("Grpc-Message"))
	case !bytes.Contains(answer, []byte("answer-1")):
		return fmt.Errorf("the answer is %.300q", answer)
	case c.kind.stream && !c.kind.grpc && strings.Count(string(answer), "data:") < events:
		return errors.New("events are missing from a stream")
	}
	return nil
}
