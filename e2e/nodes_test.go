package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

// balancer has each connection served by the next of several nodes that takes it.
type balancer struct {
	net.Listener
	turn  atomic.Int64
	nodes []string
}

func (b *balancer) serve() {
	for {
		in, err := b.Accept()
		if err != nil {
			return
		}
		go func() {
			for range b.nodes {
				node := b.nodes[int(b.turn.Add(1))%len(b.nodes)]
				out, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", node)
				if err != nil {
					continue
				}
				go func() { _, _ = io.Copy(out, in); _ = out.(*net.TCPConn).CloseWrite() }()
				_, _ = io.Copy(in, out)
				_, _ = in.Close(), out.Close()
				return
			}
			_ = in.Close()
		}()
	}
}

// nodes is a town that several processes serve on one database, behind a balancer
// that is at the town's URL: every connection comes to another one.
type nodes struct {
	*town
	balancer *balancer
	each     []*town // the town as seen at one node
}

// startNodes starts a town and splits it.
func startNodes(t *testing.T, n int, o options) *nodes {
	t.Helper()
	if o.database == "" {
		o.database = databases.Database(t)
	}
	return start(t, o).split(n)
}

// split starts the servers of a town anew: several, each at its own address, with
// one configuration and one set of keys.
func (w *town) split(n int) *nodes {
	t := w.t
	t.Helper()
	w.stop()
	all := &nodes{town: w, balancer: &balancer{}}
	public := strings.TrimPrefix(w.url, "http://")
	for range n {
		one := *w
		one.url, one.grpc = "http://127.0.0.1:"+freePort(t), maps.Clone(w.grpc)
		all.each = append(all.each, &one)
		all.balancer.nodes = append(all.balancer.nodes, strings.TrimPrefix(one.url, "http://"))
	}
	for _, one := range all.each {
		if len(w.grpc) > 0 {
			one.ownGRPC()
		}
		one.bootAt()
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", public)
	if err != nil {
		t.Fatal(err)
	}
	all.balancer.Listener = l
	t.Cleanup(func() { _ = l.Close() })
	go all.balancer.serve()
	// One connection a request, so that the next one comes elsewhere.
	w.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return all
}

// stop ends the server of a town.
func (w *town) stop() {
	w.t.Helper()
	if err := w.process.Process.Signal(syscall.SIGTERM); err != nil {
		w.t.Fatal(err)
	}
	w.gone()
}

// gone waits until the server has ended.
func (w *town) gone() {
	for range 1500 {
		if syscall.Kill(w.process.Process.Pid, 0) != nil {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	w.t.Fatal("the server does not end")
}

// bootAt starts the server at the address of its own URL, while it stays what it is
// at its public one.
func (w *town) bootAt() {
	w.t.Helper()
	w.env = []string{"POWERBOX_LISTEN=" + strings.TrimPrefix(w.url, "http://")}
	w.boot(w.flags...)
}

// ownGRPC gives a node listeners for gRPC of its own, in a configuration that is else
// that of all.
func (w *town) ownGRPC() {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join(w.dir, "powerbox.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	configured := string(raw)
	for agent, listen := range w.grpc {
		w.grpc[agent] = "127.0.0.1:" + freePort(w.t)
		configured = strings.ReplaceAll(configured, listen, w.grpc[agent])
	}
	name := "powerbox-" + filepath.Base(w.url) + ".yaml"
	w.write(name, configured)
	w.flags = []string{"-c", filepath.Join(w.dir, name)}
}

// at is what a caller sees at one node only: the address is that node's, and the host
// the public one.
func (n *nodes) at(node int) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, n.balancer.nodes[node])
	}}}
}

// verified exports the joint log at a node and verifies it as a stranger would.
func (n *nodes) verified(node int) (bundle []byte, report evidence.Report) {
	n.t.Helper()
	bundle = n.each[node].operator(http.MethodGet, "/v1/evidence/bundle", nil)
	trust, err := evidence.ParseTrust(bytes.TrimSpace(n.each[node].operator(http.MethodGet, "/v1/evidence/trust", nil)))
	if err != nil {
		n.t.Fatal(err)
	}
	if report, err = evidence.Verify(bytes.NewReader(bundle), trust); err != nil || report.Verdict() != evidence.OK {
		n.t.Fatalf("the evidence does not verify: %v %v", err, report.Problems)
	}
	return bundle, report
}

// TestEXT27_ANodeIsKilledWhileManyAppend kills one of two nodes on one database, again
// and again, while 32 clients call the node that answers. Every answered call is in
// the log, which verifies at the other node.
func TestEXT27_ANodeIsKilledWhileManyAppend(t *testing.T) {
	asGiven(t)
	const clients, kills = 32, 3
	n := startNodes(t, 2, options{extra: "defaults: {request_rate: 0}\n"})
	answers := &answered{client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				answers.call(ctx, n.agentURL("documents"))
			}
		})
	}
	enough := func(target int) {
		for answers.count() < target {
			<-time.After(5 * time.Millisecond)
		}
	}
	for round := range kills {
		enough((round + 1) * 150)
		victim := n.each[round%2]
		if err := victim.process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		victim.gone()
		enough((round+1)*150 + 75) // the other one continues alone
		victim.bootAt()
	}
	enough(kills*150 + 150)
	stop()
	wg.Wait()
	for node := range n.each {
		bundle, report := n.verified(node)
		lost := len(answers.missing(bundle))
		if lost > 0 {
			t.Errorf("%d of %d acknowledged records are lost", lost, answers.count())
		}
		t.Logf("node %d: %d answers, %d records, %d lost", node, answers.count(), report.Records, lost)
	}
}

// run runs a verb against the town's configuration.
func (w *town) verb(args ...string) (string, error) {
	w.t.Helper()
	out, err := exec.CommandContext(w.t.Context(), binary, append(args, "-c", filepath.Join(w.dir, "powerbox.yaml"))...).CombinedOutput()
	return string(out), err
}

// TestMigrateRefusesWhatItDoesNotKnow: a server does not start on a schema that is not
// its own, and says what to do.
func TestMigrateRefusesWhatItDoesNotKnow(t *testing.T) {
	asGiven(t)
	w := start(t, options{database: databases.Database(t)})
	steps, err := filepath.Glob("../internal/store/postgres/migrations/*.sql")
	if err != nil || len(steps) == 0 {
		t.Fatal(steps, err)
	}
	want := fmt.Sprintf(`"has":%d,"wants":%[1]d`, len(steps))
	for _, verb := range []string{"up", "status", "check"} {
		if out, err := w.verb("migrate", verb, "--output", "json"); err != nil || !strings.Contains(out, want) {
			t.Errorf("migrate %s: %v %s", verb, err, out)
		}
	}
	w.stop()
	name := w.database[strings.Index(w.database, "@/")+2 : strings.Index(w.database, "?")]
	if err := databases.Cluster().Exec(t.Context(), name, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"migrate", "up"}, {"migrate", "check"}, {"serve", "--dev"}} {
		if out, err := w.verb(args...); err == nil || !strings.Contains(out, "newer") {
			t.Errorf("%v: %v %s", args, err, out)
		}
	}
	empty := fmt.Sprintf("store: {postgres: %q, durability: single}\n", databases.Database(t))
	text, err := os.ReadFile(filepath.Join(w.dir, "powerbox.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("powerbox.yaml", strings.Replace(string(text), fmt.Sprintf("store: {postgres: %q, durability: single}\n", w.database), empty, 1))
	if out, err := w.verb("serve", "--dev"); err == nil || !strings.Contains(out, "powerbox migrate up") {
		t.Errorf("an empty database: %v %s", err, out)
	}
}
