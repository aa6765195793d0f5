package operations

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox/evidence"
	"github.com/powerbox-project/powerbox/internal/audit"
	"github.com/powerbox-project/powerbox/internal/web/lang"
	"github.com/powerbox-project/powerbox/internal/wire/operators"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// called is the record of a call that was decided.
func called(id, agent, caller string, d evidence.Decision, codes ...string) evidence.Record {
	r := evidence.Record{ID: id, AgentID: agent, Time: noon, ActionType: "a2a.message.send", Decision: d, Intent: evidence.Intent{Operation: agent + "/read"}}
	r.Details.Requester, r.Details.Recorder = caller, "test"
	for _, code := range codes {
		r.Details.Reasons = append(r.Details.Reasons, evidence.Reason{Code: code})
	}
	return r
}

// TestFacetsCountEachRecordOnce counts the results by value, the most frequent first,
// and a code that two reasons of a record have once.
func TestFacetsCountEachRecordOnce(t *testing.T) {
	s := searchOf(url.Values{"agent": {"mail"}, "before": {"rec_9"}, "unknown": {"x"}})
	got := facets(lang.English, s, []evidence.Record{
		called("rec_1", "mail", "desk", evidence.Deny, "frozen", "frozen", "replay"), called("rec_2", "mail", "", evidence.Deny, "frozen"), called("rec_3", "mail", "desk", evidence.Allow),
	})
	var texts []string
	for _, f := range got {
		for _, v := range f.Values {
			texts = append(texts, fmt.Sprintf("%s %s %d %s %v", f.Label, v.Text, v.Times, strings.TrimPrefix(v.Link, evidencePath), v.Chosen))
		}
	}
	want := []string{
		"Decision DENY 2 ?agent=mail&decision=DENY false", "Decision ALLOW 1 ?agent=mail&decision=ALLOW false", "Agent mail 3 ?agent=mail true", "Caller desk 2 ?agent=mail&requester=desk false",
		"Reason frozen 2 ?agent=mail&reason=frozen false", "Reason replay 1 ?agent=mail&reason=replay false", "Operation mail/read 3 ?agent=mail&operation=mail%2Fread false",
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("facets (-want +got):\n%s", diff)
	}
}

// TestCSVCellsAreNoFormulas puts an apostrophe before what a spreadsheet would calculate.
func TestCSVCellsAreNoFormulas(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "desk": "desk", "=1+1": "'=1+1", "+49": "'+49", "-x": "'-x", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'\t'=1", "\r=1": "'\r'=1", "\n=1": "'\n'=1", "a=1": "a=1", "'=1": "'=1",
		"a;=1": "a;'=1", "a; \"=1": "a; \"'=1", "a;b=1": "a;b=1", "a;'=1": "a;'=1", "\uff1d1": "'\uff1d1",
	} {
		if got := csvCell(in); got != want {
			t.Errorf("cell %q is written as %q; want %q", in, got, want)
		}
	}
	if row := csvRow(called("rec_1", "=agent", "@desk", evidence.Deny, "frozen")); row[2] != "'=agent" || row[3] != "'@desk" || row[8] != "frozen" || len(row) != len(csvColumns) {
		t.Errorf("the row is %q", row)
	}
}

// pagesOver are pages over an interface with so many records.
func pagesOver(t *testing.T, n int, fails bool) *Visit {
	t.Helper()
	signer, err := evidence.NewEd25519Signer(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := evidence.Seal(evidence.Genesis(evidence.ChainID{1}), called("rec_1", "mail", "desk", evidence.Deny, "frozen"), signer)
	if err != nil {
		t.Fatal(err)
	}
	v1 := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var before, limit int
		_, _ = fmt.Sscan(r.URL.Query().Get("before"), &before)
		_, _ = fmt.Sscan(r.URL.Query().Get("limit"), &limit)
		if fails && before > 0 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		out := []json.RawMessage{}
		for i := before; i < min(n, before+limit); i++ {
			out = append(out, sealed.Bytes())
		}
		if before+limit < n {
			w.Header().Set(operators.NextHeader, fmt.Sprint(before+limit))
		}
		_ = json.NewEncoder(w).Encode(out)
	})
	return &Visit{Request: httptest.NewRequest(http.MethodGet, evidencePath+"/records.csv", nil), API: API{v1}}
}

// TestExportsSayWhenTheyAreCut ends a file that lacks records with a line that says so,
// and no other.
func TestExportsSayWhenTheyAreCut(t *testing.T) {
	p := &Pages{}
	for name, c := range map[string]struct {
		records, lines int
		fails          bool
		last           string
	}{
		"one page":                  {3, 3, false, ""},
		"as many as an export has":  {exported, exported, false, ""},
		"one more":                  {exported + 1, exported + 1, false, cutFull},
		"the server fails half way": {2 * audit.RecordPage, audit.RecordPage + 1, true, cutFailed},
	} {
		t.Run(name, func(t *testing.T) {
			for kind, export := range map[string]func(*Visit) (Answer, error){"CSV": p.exportCSV, "OCSF": p.exportOCSF} {
				answer, err := export(pagesOver(t, c.records, c.fails))
				if err != nil {
					t.Fatal(err)
				}
				w := httptest.NewRecorder()
				if err := answer.Write(w); (err != nil) != c.fails {
					t.Fatal(err)
				}
				lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
				if kind == "CSV" {
					lines = lines[1:]
				}
				if last := lines[len(lines)-1]; len(lines) != c.lines || strings.Contains(last, "cut: ") != (c.last != "") || !strings.Contains(last, c.last) {
					t.Errorf("%s: %d lines, the last is %s; want %d lines, and %q", kind, len(lines), last, c.lines, c.last)
				}
			}
		})
	}
}

// TestTimesOfASearch reads the times that people type, as UTC, and names one that is none.
func TestTimesOfASearch(t *testing.T) {
	for text, want := range map[string]string{
		"2026-01-02T15:04:05Z": "2026-01-02T15:04:05Z", "2026-01-02T15:04": "2026-01-02T15:04:00Z", "2026-01-02 15:04": "2026-01-02T15:04:00Z", "2026-01-02": "2026-01-02T00:00:00Z", "2026-01-02T15:04:05+02:00": "2026-01-02T13:04:05Z",
	} {
		q, err := searchOf(url.Values{"since": {text}}).query()
		if err != nil || q.Get("since") != want {
			t.Errorf("%q is read as %q, error %v; want %s", text, q.Get("since"), err, want)
		}
	}
	if _, err := searchOf(url.Values{"until": {"tomorrow"}}).query(); err == nil || !strings.Contains(err.Error(), `"tomorrow"`) {
		t.Errorf("a time that is none: %v", err)
	}
}

// TestPagesOfASearch links to the older records behind 50, and says how far back it looked
// where a page is short and not the last.
func TestPagesOfASearch(t *testing.T) {
	for name, c := range map[string]struct {
		records, of    int // how many a page has, of how many
		older, further bool
	}{
		"all of them":    {3, 3, false, false},
		"none":           {0, 0, false, false},
		"more than 50":   {51, 51, true, false},
		"short":          {2, 9, false, true},
		"none until now": {0, 9, false, true},
		"full and more":  {500, 900, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := pagesOver(t, c.records, false)
			records := v.API.handler
			v.API = API{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/v1/records/") { // the one that the next page begins before
					var page []json.RawMessage
					said := &answer{header: http.Header{}}
					pagesOver(t, 1, false).API.handler.ServeHTTP(said, httptest.NewRequest(http.MethodGet, "/v1/records?limit=1", nil))
					_ = json.Unmarshal(said.body.Bytes(), &page)
					_, _ = w.Write(page[0])
					return
				}
				if c.of > c.records {
					w.Header().Set(operators.NextHeader, "rec_next")
				}
				records.ServeHTTP(w, r)
			})}
			var page evidencePage
			if err := page.find(v, searchOf(url.Values{"agent": {"mail"}})); err != nil {
				t.Fatal(err)
			}
			if (page.Older != "") != c.older || (page.Further != "") != c.further || page.Counted != c.records || len(page.Rows) != min(c.records, shownRecords) {
				t.Errorf("%d rows of %d, older %q, further %q", len(page.Rows), page.Counted, page.Older, page.Further)
			}
			if c.further && (page.Further != evidencePath+"?agent=mail&before=rec_next" || !page.Back.Equal(noon)) {
				t.Errorf("looked back to %s, further at %s", page.Back, page.Further)
			}
		})
	}
}
