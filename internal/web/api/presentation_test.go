package api

import (
	"testing"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
)

// TestDecisionsTakePresentationsByBothNames: a capability is shown as chain and proof, or
// as the token draft calls them, and never as both.
func TestDecisionsTakePresentationsByBothNames(t *testing.T) {
	for text, good := range map[string]bool{
		`{"chain":["a"],"proof":"p"}`: true, `{"aat_chain":["a"],"aat_pop":"p"}`: true,
		`{"aat_chain":["a"],"chain":["a"],"proof":"p"}`: false, `{"aat_chain":[],"aat_pop":"p"}`: false, `{"aat_pop":"p"}`: false,
	} {
		shown, err := powerbox.ParseValue([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var call gate.Call
		err = present(&call, shown)
		if (err == nil) != good || good && (len(call.Presented) != 1 || call.Presented[0].Chain[0] != "a" || call.Presented[0].Proof != "p") {
			t.Errorf("%s: %+v, %v", text, call.Presented, err)
		}
	}
}
