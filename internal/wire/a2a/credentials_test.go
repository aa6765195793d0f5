package a2a

import "testing"

// Credentials in the metadata of a request are for the gateway alone; all else in there
// continues.
func TestATK35_BodyWithoutCredentials(t *testing.T) {
	metadata := `{"` + ExtensionURI + `":{"arguments":{"n":1.0},"capabilityId":"cap_1","skill":"read"},"other":[1]}`
	want := `{"` + ExtensionURI + `":{"arguments":{"n":1.0},"skill":"read"},"other":[1]}`
	params := func(metadata string) string {
		return `{"message":{"messageId":"m","parts":[{"data":{"arguments":{"n":1.0},"skill":"read"}}],"role":"ROLE_USER"},"metadata":` + metadata + `}`
	}
	rpc := func(metadata string) string {
		return `{"id":1,"jsonrpc":"2.0","method":"SendMessage","params":` + params(metadata) + `}`
	}
	c, wrong := Decode([]byte(rpc(metadata)), Header{Version: Version1}, testLimits)
	if wrong != nil || string(c.Body()) != rpc(want) || c.Members.CapabilityID != "cap_1" {
		t.Errorf("JSON-RPC: %v\n%s; want\n%s", wrong, c.Body(), rpc(want))
	}
	h, wrong := DecodeHTTP(HTTPRequest{Method: "POST", Path: "/message:send", Body: []byte(params(metadata))}, Header{Version: Version1}, testLimits)
	if wrong != nil || string(h.Body()) != params(want) || h.Members.CapabilityID != "cap_1" {
		t.Errorf("HTTP+JSON: %v\n%s; want\n%s", wrong, h.Body(), params(want))
	}
	if again, wrong := Decode(c.Body(), Header{Version: Version1}, testLimits); wrong != nil || string(again.Body()) != rpc(want) {
		t.Errorf("without credentials: %v\n%s", wrong, again.Body())
	}
}

// TestPresentationByTheNamesOfTheDraft: aat_chain and aat_pop are chain and proof, are
// taken out like them, and stand in one spelling at a time.
func TestPresentationByTheNamesOfTheDraft(t *testing.T) {
	m, err := parseMembers("members", value(t, []byte(`{"aat_chain":["a","b"],"aat_pop":"p"}`)))
	if err != nil || len(m.Chain) != 2 || m.Proof != "p" || !m.HasCredentials() {
		t.Errorf("got %+v, %v", m, err)
	}
	for _, both := range []string{`{"aat_chain":["a"],"chain":["a"]}`, `{"aat_chain":["a"],"proof":"p","aat_pop":"p"}`} {
		if _, err := parseMembers("members", value(t, []byte(both))); err == nil {
			t.Errorf("%s was read", both)
		}
	}
	inside, _ := CredentialMembers()
	if rest := without(value(t, []byte(`{"aat_chain":["a"],"aat_pop":"p","skill":"s"}`)), inside...).String(); rest != `{"skill":"s"}` {
		t.Errorf("%s continues", rest)
	}
}
