package a2a

import "testing"

// What reading a call costs before anything is decided.
func BenchmarkDecode(b *testing.B) {
	body := []byte(`{"jsonrpc":"2.0","id":"1","method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","taskId":"t","contextId":"c","parts":[{"data":{"skill":"retrieve_document","arguments":{"resourceHandle":"rh_001"}}}]},"metadata":{"` + ExtensionURI + `":{"skill":"retrieve_document","arguments":{"resourceHandle":"rh_001"},"capabilityId":"cap_7f3a9b"}}}}`)
	b.ReportAllocs()
	for b.Loop() {
		call, err := Decode(body, Header{Version: "1.0"}, testLimits)
		if err != nil {
			b.Fatal(err)
		}
		if _, found, err := call.Naming(""); !found || err != nil {
			b.Fatal(found, err)
		}
	}
}
