package catalogue

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/powerbox-project/powerbox"
)

// reports is what the principal of these tests sees.
const reports = `
items:
  - {collection: reports, id: id-1, name: one, attributes: {quarter: 2025-Q1, year: 2025, owner: sales, final: true, tags: [board]}}
  - {collection: reports, id: id-2, name: two, attributes: {quarter: 2025-Q1, year: 2025, owner: finance, final: false, tags: [board, draft]}}
  - {collection: reports, id: id-3, name: three, attributes: {quarter: 2024-Q4, year: 2024, owner: sales, final: true, tags: []}}
  - {collection: reports, id: id-4, name: four}
  - {collection: minutes, id: id-5, name: five, attributes: {room: blue}}
`

func visible(t testing.TB) []Item {
	t.Helper()
	items, err := Parse("reports.yaml", []byte(reports), "documents")
	if err != nil {
		t.Fatal(err)
	}
	return items
}

func names(items []Item) string {
	var b strings.Builder
	for _, i := range items {
		b.WriteString(i.Name + "\n")
	}
	return b.String()
}

func TestSEP21_QueryGrammar(t *testing.T) {
	items := visible(t)
	golden(t, "testdata/query.txtar", func(t *testing.T, _ string, data []byte) string {
		got, err := ask(string(data), items)
		if err != nil {
			if strings.Contains(err.Error(), "id-") {
				t.Errorf("SEP-5: the error names an id: %v", err)
			}
			return err.Error() + "\n"
		}
		return names(got)
	})
}

func ask(query string, items []Item) ([]Item, error) {
	v, err := powerbox.ParseValue([]byte(query))
	if err != nil {
		return nil, err
	}
	q, err := ParseQuery(v)
	if err != nil {
		return nil, err
	}
	return q.Select(items)
}

func TestSEP21_UnknownListsWhatIsKnown(t *testing.T) {
	_, err := ask(`{"collection": "personnel"}`, visible(t))
	var unknown *UnknownError
	if !errors.As(err, &unknown) {
		t.Fatalf("got %v", err)
	}
	want := &UnknownError{Subject: "collection", Name: "personnel", Known: []string{"minutes", "reports"}}
	if diff := cmp.Diff(want, unknown); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := ask(`{"collection": "reports"}`, nil); err == nil || !strings.Contains(err.Error(), "you can see none") {
		t.Errorf("got %v", err)
	}
}

func TestSEP21_BoundsOfAQuery(t *testing.T) {
	wide := `{"collection": "reports", "filter": {"year": {"in": [` + strings.Repeat("1,", MaxQueryValues) + `1]}}}`
	var b strings.Builder
	for i := range MaxQueryFilters + 1 {
		b.WriteString(strings.Repeat(",", min(i, 1)) + `"a` + strings.Repeat("a", i) + `": 1`)
	}
	many := `{"collection": "reports", "filter": {` + b.String() + `}}`
	long := `{"collection": "reports", "filter": {"quarter": "` + strings.Repeat("x", MaxTextBytes+1) + `"}}`
	for _, query := range []string{wide, many, long} {
		if _, err := ask(query, visible(t)); err == nil || len(err.Error()) > 400 {
			t.Errorf("got %v", err)
		}
	}
}

// TestSEP21_SelectAgreesWithItsDefinition compares Select with the definition
// in docs/reference/tokens.md#resource-queries written out once more.
func TestSEP21_SelectAgreesWithItsDefinition(t *testing.T) {
	items := visible(t)[:3]
	rapid.Check(t, func(t *rapid.T) {
		quarter := rapid.SampledFrom([]string{"2024-Q4", "2025-Q1", "2025-Q2"}).Draw(t, "quarter")
		low := rapid.Int64Range(2023, 2026).Draw(t, "min")
		high := rapid.Int64Range(low, 2027).Draw(t, "max")
		tags := rapid.SliceOfN(rapid.SampledFrom([]string{"board", "draft", "x"}), 1, 3).Draw(t, "tags")
		query := powerbox.Object(
			powerbox.Member{Name: "collection", Value: powerbox.String("reports")},
			powerbox.Member{Name: "filter", Value: powerbox.Object(
				powerbox.Member{Name: "quarter", Value: powerbox.String(quarter)},
				powerbox.Member{Name: "year", Value: powerbox.Object(
					powerbox.Member{Name: "min", Value: powerbox.Number(powerbox.Int(low))},
					powerbox.Member{Name: "max", Value: powerbox.Number(powerbox.Int(high))})},
				powerbox.Member{Name: "tags", Value: powerbox.Object(
					powerbox.Member{Name: "in", Value: texts(tags)})},
			)})
		got, err := ask(query.String(), items)
		if err != nil {
			t.Fatal(err)
		}
		want := slices.DeleteFunc(slices.Clone(items), func(i Item) bool {
			q, _ := i.Attributes["quarter"].Text()
			d, _ := i.Attributes["year"].Decimal()
			year, _ := d.Int64()
			has, _ := i.Attributes["tags"].Elements()
			meets := slices.ContainsFunc(has, func(v powerbox.Value) bool {
				s, _ := v.Text()
				return slices.Contains(tags, s)
			})
			return q != quarter || year < low || year > high || !meets
		})
		if diff := cmp.Diff(names(want), names(got)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", query, diff)
		}
	})
}

func texts(ss []string) powerbox.Value {
	vs := make([]powerbox.Value, len(ss))
	for i, s := range ss {
		vs[i] = powerbox.String(s)
	}
	return powerbox.List(vs...)
}

// FuzzParseQuery holds that an accepted query prints as one that selects the
// same, and that it selects nothing outside its collection.
func FuzzParseQuery(f *testing.F) {
	seeds(f, "testdata/query.txtar")
	items := visible(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := powerbox.ParseValue(data)
		if err != nil {
			return
		}
		q, err := ParseQuery(v)
		if err != nil {
			return
		}
		got, err := q.Select(items)
		again, againErr := ask(q.String(), items)
		if (err == nil) != (againErr == nil) || names(got) != names(again) {
			t.Errorf("%s selects %q (%v), printed %q (%v)", q, names(got), err, names(again), againErr)
		}
		for _, i := range got {
			if i.Collection != q.collection {
				t.Errorf("%s selects from %s", q, i.Collection)
			}
		}
	})
}
