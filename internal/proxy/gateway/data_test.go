package gateway

import (
	"fmt"
	"testing"

	"github.com/powerbox-project/powerbox"
)

func TestPathsOfResults(t *testing.T) {
	result, err := powerbox.ParseValue([]byte(`{"entries":[{"iban":"A","x":{"n":1}},{"iban":["B"]},{"iban":"C"}],"a/b":{"~":"T"},"*":"star","text":"t"}`))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/entries/*/iban": `["A" "C"]`, "/entries/*/iban/*": `["B"]`, "/entries/*/x/n": `[1]`, "/entries/0/iban": `[]`, "/entries": `[]`,
		"/a~1b/~0": `["T"]`, "/*": `["star"]`, "/text": `["t"]`, "": `[]`, "/": `[]`, "/text/": `[]`, "/none/*/iban": `[]`,
	} {
		if got := fmt.Sprint(at(result, path)); got != want {
			t.Errorf("%q: %s; want %s", path, got, want)
		}
	}
	if got := fmt.Sprint(at(powerbox.String("whole"), "")); got != `["whole"]` {
		t.Errorf("the whole result: %s", got)
	}
}
