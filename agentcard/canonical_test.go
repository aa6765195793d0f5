package agentcard_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/gowebpki/jcs"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/powerbox-project/powerbox/agentcard"
)

// oracle is the canonical form by other means: the protocol's own definitions
// and another implementation of RFC 8785.
func oracle(raw []byte) ([]byte, error) {
	var card v1.AgentCard
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &card); err != nil {
		return nil, err
	}
	card.Signatures = nil
	written, err := protojson.Marshal(&card)
	if err != nil {
		return nil, err
	}
	return jcs.Transform(written)
}

// cards are the cards of testdata/lint and of the conformance suite.
func cards(tb testing.TB) map[string][]byte {
	tb.Helper()
	out := map[string][]byte{}
	files, err := filepath.Glob("testdata/lint/*.txtar")
	if err != nil {
		tb.Fatal(err)
	}
	for _, file := range files {
		out[filepath.Base(file)] = sections(tb, file)["card.json"]
	}
	data, err := os.ReadFile("../tests/conformance/capability-discovery.json")
	if err != nil {
		tb.Fatal(err)
	}
	var suite struct {
		Cards map[string]json.RawMessage `json:"cards"`
	}
	if err := json.Unmarshal(data, &suite); err != nil {
		tb.Fatal(err)
	}
	for name, raw := range suite.Cards {
		out[name] = raw
	}
	return out
}

// same holds our canonical form against the oracle's. What one of them refuses
// must not be signed by the other.
func same(t *testing.T, raw []byte) (both bool) {
	t.Helper()
	full, _, err := agentcard.Canonical(raw)
	want, errOracle := oracle(raw)
	if err != nil {
		return false // we may refuse more
	}
	if errOracle != nil {
		t.Errorf("CARD-15 we make a form of what the protocol's reader refuses: %v\n%s", errOracle, raw)
		return false
	}
	if string(full) != string(want) {
		t.Errorf("CARD-15 canonical form\n%s\nwant\n%s", full, want)
	}
	return true
}

// TestCARD15_CanonicalForm compares the canonical form with that of the
// protocol's own reader and another implementation of RFC 8785.
func TestCARD15_CanonicalForm(t *testing.T) {
	all := cards(t)
	all["presence"] = []byte(`{"name":"A","version":"","iconUrl":"","documentationUrl":null,"supportedInterfaces":[{"url":"u","tenant":""}],"capabilities":{"streaming":false,"extendedAgentCard":true,"extensions":[{"uri":"x","required":false,"params":{"n":1.50,"e":1E2,"z":-0,"s":"","l":[],"o":{},"nil":null,"\u20ac":"\u0001","b":false}}]},"skills":[{"tags":[]}],"securitySchemes":{},"signatures":[{"protected":"p","signature":"s"}]}`)
	all["schema's names"] = []byte(`{"supported_interfaces":[{"url":"u","protocol_binding":"JSONRPC","protocol_version":"1.0"}],"default_input_modes":["text/plain"],"capabilities":{"push_notifications":false,"extended_agent_card":true},"security_schemes":{"a":{"mtls_security_scheme":{}},"b":{"open_id_connect_security_scheme":{"open_id_connect_url":"https://x"}},"c":{"oauth2_security_scheme":{"flows":{"device_code":{"device_authorization_url":"d"}}}},"d":{"http_auth_security_scheme":{"bearer_format":"JWT"}},"e":{"api_key_security_scheme":{"name":"n"}}}}`)
	n := 0
	for name, raw := range all {
		t.Run(name, func(t *testing.T) {
			if same(t, raw) {
				n++
			}
		})
	}
	if n < 20 {
		t.Errorf("CARD-15 only %d cards have a canonical form", n)
	}
	for name, raw := range map[string]string{
		"0.3 alone":                `{"name":"A","url":"https://a.example.com"}`,
		"a member twice":           `{"name":"A","name":"B","supportedInterfaces":[{"url":"u"}]}`,
		"a member in two ways":     `{"iconUrl":"a","icon_url":"b","supportedInterfaces":[{"url":"u"}]}`,
		"another type":             `{"name":1,"supportedInterfaces":[{"url":"u"}]}`,
		"two kinds of scheme":      `{"supportedInterfaces":[{"url":"u"}],"securitySchemes":{"x":{"mtlsSecurityScheme":{},"apiKeySecurityScheme":{}}}}`,
		"a number beyond a double": `{"supportedInterfaces":[{"url":"u"}],"capabilities":{"extensions":[{"params":{"n":1e400}}]}}`,
		"twice in params":          `{"supportedInterfaces":[{"url":"u"}],"capabilities":{"extensions":[{"params":{"n":1,"n":2}}]}}`,
	} {
		if full, _, err := agentcard.Canonical([]byte(raw)); err == nil {
			t.Errorf("CARD-15 %s has the canonical form %s", name, full)
		}
	}
}

// FuzzCard reads anything as a card: nothing panics, the same bytes give the same
// answers, and a canonical form is the protocol's.
func FuzzCard(f *testing.F) {
	for _, raw := range cards(f) {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		card, problems := agentcard.Lint(raw, true)
		again, _ := agentcard.Lint(raw, true)
		if len(again.Problems()) != len(problems) || again.Digest() != card.Digest() {
			t.Errorf("CARD-10 two answers for %q", raw)
		}
		needs := agentcard.Needs{Features: []string{"streaming_message", "com.example/x"}, Schemes: []string{"http"}, Inputs: []string{"text/plain"}}
		if a := agentcard.Compatible(card, needs); a.Compatible && (!agentcard.Relied(problems) || !card.Supports("streaming_message")) {
			t.Errorf("CARD-8 compatible: %q", raw)
		}
		if agentcard.Relied(problems) && len(agentcard.DiffCards(card, card)) > 0 {
			t.Errorf("CARD-11 a card differs from itself: %v %q", agentcard.DiffCards(card, card), raw)
		}
		same(t, raw)
	})
}
