package e2e

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// turn is the log of a shared database, held by someone else: the changes of nodes wait for it,
// in the order in which they came.
type turn struct {
	t    *testing.T
	conn *pgx.Conn
}

// holdLog takes the turn to write.
func holdLog(t *testing.T, database string) *turn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	h := &turn{t, conn}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	h.do("BEGIN; SELECT 1 FROM log WHERE only_row = 0 FOR UPDATE")
	return h
}

func (h *turn) do(statement string) {
	h.t.Helper()
	if _, err := h.conn.Exec(h.t.Context(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
		h.t.Fatal(err)
	}
}

// waiting returns when as many changes wait for their turn.
func (h *turn) waiting(changes int) {
	h.t.Helper()
	eventually(h.t, stepTime, func() string { return "the changes do not wait for the log" }, func() bool {
		var n int
		err := h.conn.QueryRow(h.t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n)
		return err == nil && n == changes
	})
}

// TestATK171_RevokedAtAnotherNodeBeforeTheRecord has the decision of a call wait for its record at
// one node, behind the revocation of its capability at another one. The log then has the
// revocation first, so the call is not made.
func TestATK171_RevokedAtAnotherNodeBeforeTheRecord(t *testing.T) {
	asGiven(t)
	for _, on := range []wire{{}, {overREST, "1.0"}, {overGRPC, "1.0"}, {overMCP, "2025-11-25"}} {
		t.Run(on.String(), func(t *testing.T) {
			database := databases.Database(t)
			n := startNodes(t, 2, options{on: on, database: database})
			alice := n.caller(aliceToken)
			n.on(1)
			held := alice.reports()
			before := len(n.documents.got())
			log := holdLog(t, database)
			revoked := make(chan struct{})
			go func() {
				defer close(revoked)
				n.each[0].operator(http.MethodPost, "/v1/revocations", map[string]any{"target": held.ID})
			}()
			log.waiting(1)
			said := make(chan answer, 1)
			go func() { said <- alice.search(held.Token) }()
			log.waiting(2)
			log.do("ROLLBACK")
			a := <-said
			<-revoked
			if got := len(n.documents.got()) - before; a.reason() != "revoked" || got != 0 {
				t.Errorf("ATK-171: %s; the agent got %d calls; want revoked and 0", a.Raw, got)
			}
			if _, report := n.verified(0); report.Records == 0 {
				t.Error("ATK-171: there are no records")
			}
		})
	}
	t.Run("a call that a person approves", func(t *testing.T) {
		database := databases.Database(t)
		n := startNodes(t, 2, options{mail: ", approval: true", database: database})
		alice := n.caller(aliceToken)
		n.on(1)
		held := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "Tell Bob"})[0]
		task := heldIn(t, alice.mailsUnder(held, "bob@example.org"))
		log := holdLog(t, database)
		var both sync.WaitGroup
		both.Go(func() { n.each[0].operator(http.MethodPost, "/v1/revocations", map[string]any{"target": held.ID}) })
		log.waiting(1)
		both.Go(func() {
			n.each[1].answers("alice", task.URL[strings.LastIndexByte(task.URL, '/')+1:], map[string]any{})
		})
		log.waiting(2)
		log.do("ROLLBACK")
		both.Wait()
		eventually(t, stepTime, func() string { return "ATK-171: no outcome says that the call was not made" }, func() bool {
			bundle, _ := n.verified(0)
			return bytes.Contains(bundle, []byte(`"told":"revoked"`)) || bytes.Contains(bundle, []byte(`"code":"revoked"`)) // or its decision came after
		})
		if got := len(n.mail.got()); got != 0 {
			t.Errorf("ATK-171: the agent got %d calls; want 0", got)
		}
	})
	t.Run("Agent Auth", func(t *testing.T) {
		database := databases.Database(t)
		b := newBank(t, bankOptions{database: database, capabilities: "        - {name: buy, description: Buys, sensitivity: read, uses: 1}\n"})
		n := b.split(2)
		m := b.active("alice", "buy")
		execute := func() reply {
			return b.ask(http.MethodPost, n.each[1].url+"/capability/execute", m.token(b.url+"/capability/execute"), map[string]any{"capability": "buy", "arguments": fact{}})
		}
		log := holdLog(t, database)
		frozen := make(chan struct{})
		go func() {
			defer close(frozen)
			n.each[0].operator(http.MethodPost, "/v1/freezes", map[string]any{"target": "user:alice", "reason": "a test"})
		}()
		log.waiting(1)
		said := make(chan reply, 1)
		go func() { said <- execute() }()
		log.waiting(2)
		log.do("ROLLBACK")
		r := <-said
		<-frozen
		if got := b.did("buy"); r.Status != http.StatusForbidden || got != 0 {
			t.Errorf("ATK-171: %d %s; the service was asked %d times; want 403 and 0", r.Status, r.Raw, got)
		}
		n.each[0].operator(http.MethodPost, "/v1/thaws", map[string]any{"target": "user:alice", "reason": "a test"})
		b.want("ATK-171 the one use was given back", execute(), http.StatusOK, "")
	})
}
