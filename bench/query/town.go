package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/powerbox-project/powerbox/bench/internal/built"
	"github.com/powerbox-project/powerbox/internal/store/pgtest"
)

// town is the program, and a database with the resources of its one agent.
type town struct {
	dir, binary, listen string
	rows                int
	progress            io.Writer
	random              *rand.Rand
	cluster             *pgtest.Cluster
	program             built.Program
	agent               *httptest.Server
}

// owners is how many users share the rows. Each customer has rows of all of them.
const owners, customers = 1000, 50

// fill makes the table. Customer 0 has rows of every user but alice, and customer 1 has
// rows of alice that policy hides.
func (t *town) fill(ctx context.Context) (err error) {
	t.agent = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, card, r.Host) //nolint:gosec // JSON, which no browser reads
	}))
	fmt.Fprintf(t.progress, "filling %d rows\n", t.rows)
	if t.cluster, err = pgtest.New("fsync=off", "shared_buffers=512MB"); err != nil {
		return err
	}
	return t.cluster.Exec(ctx, "postgres",
		`CREATE TABLE reports (id bigint PRIMARY KEY, owner text NOT NULL, title text NOT NULL, customer text NOT NULL, year int NOT NULL, sealed boolean NOT NULL)`,
		fmt.Sprintf(`INSERT INTO reports SELECT n, 'user:u' || n %% %[2]d, 'Report ' || n, 'customer-' || (n / %[2]d) %% %[3]d, 2000 + (n / (%[2]d * %[3]d)) %% 20, false FROM generate_series(1, %[1]d) n`, t.rows, owners, customers),
		`UPDATE reports SET owner = 'user:alice' WHERE owner = 'user:u0' AND customer <> 'customer-0'`,
		`UPDATE reports SET sealed = true WHERE customer = 'customer-1' AND owner = 'user:alice'`,
		`CREATE INDEX ON reports (owner, id)`, `CREATE INDEX ON reports (customer, id)`, `VACUUM ANALYZE reports`)
}

// configuration has one agent over the table. A page is not kept, so that every request
// asks the database.
const configuration = `listen: %[1]s
issuer: {url: "http://%[1]s", directory: %[2]s}
identity:
  dev: [{name: alice, token: alice-session-token}]
agents: [{id: documents, upstream: "http://%[4]s", mode: require}]
offers:
  documents: [{id: "documents:read", operations: [retrieve]}]
skills:
  documents: [{skill: retrieve, grant: "documents:read", operation: retrieve, handle: resource, effect: read}]
resources:
  documents:
    live:
      - collection: reports
        attributes: {customer: text, year: integer, sealed: boolean}
        cache: 1ms
        floor: %[3]s
        source:
          sql: {url_file: reports.url, statement: "SELECT * FROM reports WHERE owner = $1", name: title, page: 50}
policies: [policies.cedar]
defaults: {request_rate: 0}
limits: {denials: 0}
`

const policies = `permit(principal, action in Action::"documents/documents:read", resource in Collection::"documents/reports") unless { resource.attributes.sealed };
`

// card is that of the agent, by its address. No call reaches the agent.
const card = `{"name":"documents","description":"An agent","version":"1.0.0","supportedInterfaces":[{"url":"http://%s/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
	"capabilities":{},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"retrieve","name":"Retrieve","description":"Retrieves","tags":["data"]}]}`

// serve starts the program with a floor.
func (t *town) serve(ctx context.Context, floor time.Duration) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	t.listen = l.Addr().String()
	for name, text := range map[string]string{
		"powerbox.yaml": fmt.Sprintf(configuration, t.listen, "state-"+floor.String(), floor, t.agent.Listener.Addr()), "policies.cedar": policies, "reports.url": t.cluster.URL("postgres"),
	} {
		if err := os.WriteFile(filepath.Join(t.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := l.Close(); err != nil {
		return err
	}
	return t.program.Serve(ctx, t.binary, t.dir, t.listen, time.Minute)
}

func (t *town) close() error {
	err := t.program.End()
	if t.agent != nil {
		t.agent.Close()
	}
	if t.cluster != nil {
		err = errors.Join(err, t.cluster.Close())
	}
	return err
}

// ask requests a capability for the resources of a filter, and returns how long the answer
// took and how many resources it has.
func (t *town) ask(ctx context.Context, filter string) (took time.Duration, resources int, err error) {
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"a2a/capabilities/request","params":{"grants":["documents:read"],"purpose":"Measure","resourceQuery":{"collection":"reports","filter":` + filter + `}}}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+t.listen+"/agents/documents", bytes.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	r.Header = http.Header{"Authorization": {"Bearer alice-session-token"}, "Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}
	began := time.Now()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	raw, err := io.ReadAll(response.Body)
	took = time.Since(began)
	if err != nil {
		return 0, 0, err
	}
	var answer struct {
		Result struct {
			Capabilities []struct{ ResourceHandles []any }
		}
		Error *struct {
			Data []struct{ Metadata struct{ Code string } }
		}
	}
	switch err := json.Unmarshal(raw, &answer); {
	case err != nil:
		return 0, 0, fmt.Errorf("%w: %s", err, raw)
	case len(answer.Result.Capabilities) == 1:
		return took, len(answer.Result.Capabilities[0].ResourceHandles), nil
	case answer.Error != nil && len(answer.Error.Data) > 0 && answer.Error.Data[0].Metadata.Code == "nothing_granted":
		return took, 0, nil
	}
	return 0, 0, fmt.Errorf("the answer is %s", raw)
}
