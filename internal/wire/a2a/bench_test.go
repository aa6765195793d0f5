package a2a

import (
	"strings"
	"testing"
)

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

// What an answer teaches of tasks.
func BenchmarkTold(b *testing.B) {
	answer := []byte(`{"jsonrpc":"2.0","id":7,"result":{"message":{"messageId":"answer-1","role":"ROLE_AGENT","taskId":"t","contextId":"c","parts":[{"text":"` +
		strings.Repeat("Revenue grew in every region. ", 29) + `"}]}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if refs, _ := ReadResponse(answer).Told(); len(refs) != 1 {
			b.Fatal(refs)
		}
	}
}

// TestTextsEndWhereTheyEnd holds the search for the end of a text to one byte by byte.
func TestTextsEndWhereTheyEnd(t *testing.T) {
	slow := func(raw []byte, at int) int {
		for ; at < len(raw) && raw[at] != '"'; at++ {
			if raw[at] == '\\' {
				at++
			}
		}
		return min(at, len(raw))
	}
	for n := range 1 << 14 { // all texts of up to seven of these
		var raw []byte
		for rest := n + 1; rest > 1; rest /= 4 {
			raw = append(raw, `a\"x`[rest%4])
		}
		if got, want := endOfText(raw, 0), slow(raw, 0); got != want {
			t.Fatalf("%q ends at %d; want %d", raw, got, want)
		}
	}
}
