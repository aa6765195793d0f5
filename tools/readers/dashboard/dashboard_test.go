package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/telemetry"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"go.yaml.in/yaml/v3"
)

// panel is a panel of the dashboard, as far as it is read here.
type panel struct {
	Title   string
	Targets []struct{ Expr string }
}

func panels(t *testing.T) []panel {
	t.Helper()
	data, err := os.ReadFile("../../../deploy/grafana/powerbox.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal(data, &dashboard); err != nil || len(dashboard.Panels) < 10 {
		t.Fatalf("%d panels, %v", len(dashboard.Panels), err)
	}
	return dashboard.Panels
}

// expression is a query as Grafana sends it with every agent chosen.
func expression(text string) string { return strings.ReplaceAll(text, "$agent", ".*") }

// begin is the time of the first scrape.
var begin = time.Unix(1_790_000_000, 0)

// scraped is Prometheus' own store with two minutes of scrapes of the product's metrics, while
// calls of every fate happen. The meter, its instruments and its handler are the product's.
func scraped(t *testing.T) *tsdb.DB {
	t.Helper()
	meter, err := telemetry.New(telemetry.Build{Version: "0.1.0", Commit: "abc", Go: "go1.26"})
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	count := func() int64 { return n }
	if err := meter.Watch(telemetry.State{RevocationSequence: count, Records: count, Waiting: count, Undelivered: count, Unrecorded: count, Shed: count}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(meter.Handler())
	t.Cleanup(server.Close)
	options := tsdb.DefaultOptions()
	db, err := tsdb.Open(t.TempDir(), nil, nil, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for step := range 9 {
		n++
		calls(t.Context(), meter)
		scrape(t, db, server.URL, begin.Add(time.Duration(step)*15*time.Second))
	}
	return db
}

// calls tells the meter of a call of every fate, as the gateway does.
func calls(ctx context.Context, meter *telemetry.Telemetry) {
	for _, seen := range []telemetry.Seen{
		{Agent: "documents", Binding: "JSONRPC", Method: "SendMessage", Decision: "allow", Basis: "capability", Mode: "require"},
		{Agent: "documents", Binding: "MCP", Method: "tools/call", Tool: "read_note", Decision: "deny", Mode: "require", Reasons: []string{"capability_required"}, Signal: true, Took: 30 * time.Millisecond},
		{Agent: "documents", Binding: "JSONRPC", Method: "SendMessage", Decision: "error", Mode: "require", Reasons: []string{"evidence_unavailable"}},
	} {
		begun, _ := meter.Begin(ctx, begin, http.Header{}, seen.Agent, seen.Binding)
		for _, took := range []string{"decide", "record", "upstream"} {
			meter.Took(begun, took, seen.Agent, 30*time.Millisecond)
		}
		meter.End(begun, seen)
	}
	meter.Stream(ctx, "documents")("frozen")
	meter.Stream(ctx, "documents")
	meter.Committed(3, 2*time.Millisecond)
}

// scrape stores what an address tells, as a Prometheus with job powerbox does.
func scrape(t *testing.T, db *tsdb.DB, url string, at time.Time) {
	t.Helper()
	response, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	p, err := textparse.New(text, response.Header.Get("Content-Type"), labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		t.Fatal(err)
	}
	add := db.Appender(t.Context())
	put := func(of labels.Labels, value float64) {
		of = labels.NewBuilder(of).Set("job", "powerbox").Set("instance", "server:9464").Labels()
		if _, err := add.Append(0, of, at.UnixMilli(), value); err != nil {
			t.Fatal(err)
		}
	}
	put(labels.FromStrings("__name__", "up"), 1)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if entry == textparse.EntrySeries {
			var of labels.Labels
			p.Labels(&of)
			_, _, value := p.Series()
			put(of, value)
		}
	}
	if err := add.Commit(); err != nil {
		t.Fatal(err)
	}
}

// ask runs a query at the time of the last scrape.
func ask(t *testing.T, db storage.Queryable, text string) (promql.Vector, error) {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 20, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	defer func() { _ = engine.Close() }()
	q, err := engine.NewInstantQuery(t.Context(), db, nil, text, begin.Add(2*time.Minute))
	if err != nil {
		return nil, err
	}
	defer q.Close()
	return q.Exec(t.Context()).Vector()
}

func TestEveryPanelShowsSomething(t *testing.T) {
	db := scraped(t)
	for _, p := range panels(t) {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q asks nothing", p.Title)
		}
		for _, target := range p.Targets {
			got, err := ask(t, db, expression(target.Expr))
			if err != nil || len(got) == 0 {
				t.Errorf("panel %q: %s gives %d series: %v", p.Title, target.Expr, len(got), err)
			}
			for _, sample := range got {
				if sample.F != sample.F {
					t.Errorf("panel %q: %s is no number for %s", p.Title, target.Expr, sample.Metric)
				}
			}
		}
	}
}

// Operations of MCP are shown by tool, and those that failed by error. The tool is called once
// in 15 seconds and takes 30 ms, which is between 20 and 50.
func TestPanelsOfMCPShowTools(t *testing.T) {
	db := scraped(t)
	seen := 0
	for _, p := range panels(t) {
		if !strings.HasPrefix(p.Title, "MCP operations") {
			continue
		}
		got, err := ask(t, db, expression(p.Targets[0].Expr))
		if err != nil || len(got) != 1 {
			t.Fatalf("panel %q: %v, %v", p.Title, got, err)
		}
		seen++
		of, value := got[0].Metric, got[0].F
		switch {
		case strings.Contains(p.Title, "failed"):
			if of.Get("error_type") != "capability_required" || value < 0.025 || value > 0.035 {
				t.Errorf("panel %q: %v", p.Title, got)
			}
		case of.Get("gen_ai_tool_name") != "read_note" || of.Get("mcp_method_name") != "tools/call":
			t.Errorf("panel %q: %v", p.Title, got)
		case strings.Contains(p.Title, "p99") && (value < 0.02 || value > 0.05), !strings.Contains(p.Title, "p99") && (value < 0.025 || value > 0.035):
			t.Errorf("panel %q: %v", p.Title, got)
		}
	}
	if seen != 3 {
		t.Errorf("%d panels of MCP", seen)
	}
}

// A rate of a gauge, or a gauge of a counter, has values and says nothing.
func TestRatesAreOfCounters(t *testing.T) {
	p := parser.NewParser(parser.Options{})
	for _, text := range expressions(t) {
		parsed, err := p.ParseExpr(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
			call, ok := node.(*parser.Call)
			if !ok || call.Func.Name != "rate" && call.Func.Name != "increase" {
				return nil
			}
			name := call.Args[0].(*parser.MatrixSelector).VectorSelector.(*parser.VectorSelector).Name
			if !counter.MatchString(name) {
				t.Errorf("%s: %s of %s, which is no counter", text, call.Func.Name, name)
			}
			return nil
		})
	}
}

var counter = regexp.MustCompile(`_(total|bucket|sum|count)$`)

// expressions are the queries of the dashboard and of the alerts.
func expressions(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			all = append(all, expression(target.Expr))
		}
	}
	for _, expr := range alerts(t) {
		all = append(all, expr)
	}
	return all
}

func alerts(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("../../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			all[r.Alert] = r.Expr
		}
	}
	if len(all) < 10 {
		t.Fatalf("%d alerts", len(all))
	}
	return all
}

// Alerts name metrics that exist: every selector of them finds series.
func TestAlertsNameMetricsThatExist(t *testing.T) {
	db := scraped(t)
	p := parser.NewParser(parser.Options{})
	for name, text := range alerts(t) {
		parsed, err := p.ParseExpr(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
			if of, ok := node.(*parser.VectorSelector); ok {
				if got, err := ask(t, db, of.Name); err != nil || len(got) == 0 {
					t.Errorf("%s: no metric %s: %v", name, of.Name, err)
				}
			}
			return nil
		})
	}
}
