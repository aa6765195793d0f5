package catalogue

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/powerbox-project/powerbox"
)

// TestSEP5_CatalogueFilesAreReadStrictly covers what a catalogue file may say;
// the errors are for the operator and name file and line.
func TestSEP5_CatalogueFilesAreReadStrictly(t *testing.T) {
	golden(t, "testdata/parse.txtar", func(t *testing.T, name string, data []byte) string {
		items, err := Parse(name, data, "documents")
		if err != nil {
			if !strings.HasPrefix(err.Error(), name+":") || items != nil {
				t.Errorf("error without a place, or with items: %v", err)
			}
			return err.Error() + "\n"
		}
		var b bytes.Buffer
		for _, item := range items {
			if err := json.NewEncoder(&b).Encode(item); err != nil {
				t.Fatal(err)
			}
		}
		return b.String()
	})
}

func TestParseRefusesHugeFiles(t *testing.T) {
	_, err := Parse("big.yaml", make([]byte, MaxFileBytes+1), "documents")
	if err == nil || !strings.Contains(err.Error(), "want at most") {
		t.Errorf("got %v", err)
	}
}

func TestCollections(t *testing.T) {
	items := []Item{
		{Agent: "b", Collection: "reports", ID: "1", Name: "1", Attributes: map[string]powerbox.Value{
			"year": powerbox.Number(powerbox.Int(2025)), "final": powerbox.Bool(true),
		}},
		{Agent: "b", Collection: "reports", ID: "2", Name: "2", Attributes: map[string]powerbox.Value{
			"year": powerbox.Number(powerbox.Int(2024)), "tags": powerbox.List(),
		}},
		{Agent: "a", Collection: "reports", ID: "1", Name: "1"},
	}
	got, err := Collections(items)
	if err != nil {
		t.Fatal(err)
	}
	want := []Collection{
		{Agent: "a", Name: "reports", Attributes: map[string]Attribute{}},
		{Agent: "b", Name: "reports", Attributes: map[string]Attribute{
			"year":  {TypeInteger, true},
			"final": {TypeBoolean, false},
			"tags":  {TypeTexts, false},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCollectionsRefusesWhatParseRefuses(t *testing.T) {
	good := Item{Agent: "a", Collection: "c", ID: "i", Name: "n"}
	long := strings.Repeat("x", MaxIDBytes+1)
	many := map[string]powerbox.Value{}
	for i := range MaxItemAttributes + 1 {
		many[strings.Repeat("a", i+1)] = powerbox.Bool(true)
	}
	wide := make([]powerbox.Value, MaxSetElements+1)
	for i := range wide {
		wide[i] = powerbox.String("x")
	}
	for name, change := range map[string]func(*Item){
		"no agent":        func(i *Item) { i.Agent = "" },
		"agent/slash":     func(i *Item) { i.Agent = "a/b" },
		"long id":         func(i *Item) { i.ID = long },
		"control in id":   func(i *Item) { i.ID = "a\nb" },
		"bytes in name":   func(i *Item) { i.Name = "\xff" },
		"no name":         func(i *Item) { i.Name = "" },
		"many attributes": func(i *Item) { i.Attributes = many },
		"long text":       func(i *Item) { i.Attributes = map[string]powerbox.Value{"a": powerbox.String(long)} },
		"wide set":        func(i *Item) { i.Attributes = map[string]powerbox.Value{"a": powerbox.List(wide...)} },
		"null":            func(i *Item) { i.Attributes = map[string]powerbox.Value{"a": {}} },
		"digit first":     func(i *Item) { i.Attributes = map[string]powerbox.Value{"1a": powerbox.Bool(true)} },
	} {
		t.Run(name, func(t *testing.T) {
			item := good
			change(&item)
			if _, err := Collections([]Item{item}); err == nil {
				t.Error("accepted")
			}
		})
	}
	if _, err := Collections([]Item{good, good}); err == nil {
		t.Error("one id twice was accepted")
	}
	if _, err := Collections([]Item{good}); err != nil {
		t.Error(err)
	}
}

// FuzzParseCatalogue holds that whatever is accepted is well-formed.
func FuzzParseCatalogue(f *testing.F) {
	seeds(f, "testdata/parse.txtar")
	f.Fuzz(func(t *testing.T, data []byte) {
		items, err := Parse("f", data, "documents")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("no place in %q", err)
			}
			return
		}
		if _, err := Collections(items); err != nil {
			t.Errorf("accepted, but %v", err)
		}
	})
}
