package main

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// request is one hostile request, as bytes that any caller can send.
type request struct {
	name    string
	agent   string
	method  string
	target  string
	header  [][2]string
	body    []byte
	chunks  int // bytes of each chunk of the body; 0 for a body with Content-Length
	grpc    bool
	wrapped bool // it says itself who calls
}

// The sizes of bodies: what the gateway takes of anybody by default, and what it takes
// of a caller that shows nothing of who it is.
const (
	whole     = 4<<20 - 4<<10
	anonymous = 256<<10 - 2<<10
)

// atBound is how many values a body has that is just below the bound of values.
const atBound = 65_000

// anonymousValues is the same below the bound for callers that show nothing.
const anonymousValues = 4_000

// repeat writes element so often that the text has about size bytes, parted by commas.
func repeat(element string, size int) string { return times(element, size/(len(element)+1)) }

func times(element string, n int) string {
	return strings.TrimSuffix(strings.Repeat(element+",", n), ",")
}

// numbered writes n elements, in each of which %d is its number.
func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// rpc is SendMessage with these members in its message and these parameters beside it.
func rpc(name, message, beside string) request {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"role":"ROLE_USER",%s}%s}}`, message, beside)
	return request{
		name: name, agent: overA2A, method: http.MethodPost, target: "/agents/" + overA2A,
		header: [][2]string{{"Content-Type", "application/json"}, {"A2A-Version", "1.0"}}, body: []byte(body),
	}
}

// argued is the call of a skill with this JSON as an argument.
func argued(name, value string) request {
	return rpc(name, `"messageId":"m","parts":[{"data":{"skill":"export","arguments":{"a":`+value+`}}}]`, "")
}

const plainMessage = `"messageId":"m","parts":[{"text":"x"}]`

func metadata(name, members string) request {
	return rpc(name, plainMessage, `,"metadata":{`+members+`}`)
}

// with returns the request with further headers.
func (r request) with(header ...[2]string) request {
	r.header = append(append([][2]string{}, r.header...), header...)
	return r
}

// tools is a call of a tool in the newest revision of MCP.
func tools(name, arguments string, params int) request {
	r := request{
		name: name, agent: overMCP, method: http.MethodPost, target: "/agents/" + overMCP,
		body: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"export","arguments":{%s},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, arguments),
	}
	r.header = [][2]string{
		{"Content-Type", "application/json"},
		{"Accept", "application/json, text/event-stream"},
		{"Mcp-Protocol-Version", "2026-07-28"},
		{"Mcp-Method", "tools/call"},
		{"Mcp-Name", "export"},
	}
	for n := range params {
		r.header = append(r.header, [2]string{fmt.Sprintf("Mcp-Param-N%d", n), "1"})
	}
	return r
}

func field(n protowire.Number, inner []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), inner)
}

func fields(n protowire.Number, inner []byte, times int) []byte {
	return []byte(strings.Repeat(string(field(n, inner)), times))
}

// overGRPC is SendMessage over gRPC with these fields.
func overGRPC(name string, message []byte) request {
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	return request{
		name: name, agent: overA2A, grpc: true, method: http.MethodPost, target: "/lf.a2a.v1.A2AService/SendMessage",
		header: [][2]string{{"Content-Type", "application/grpc"}, {"Te", "trailers"}, {"A2A-Version", "1.0"}}, body: append(frame, message...),
	}
}

// rest is a request by HTTP+JSON.
func rest(name, method, target string, body string) request {
	return request{
		name: name, agent: overA2A, method: method, target: "/agents/" + overA2A + target,
		header: [][2]string{{"Content-Type", "application/json"}, {"A2A-Version", "1.0"}}, body: []byte(body),
	}
}

const extension = "https://github.com/powerbox-project/powerbox/extensions/capability-negotiation/v1"

// requests are those that are sent, in the order of the table.
func requests() []request {
	all := values()
	all = append(all, lists()...)
	all = append(all, wires()...)
	all = append(all, heads()...)
	return append(all, unidentified()...)
}

// values are bodies whose values cost most.
func values() []request {
	deep := strings.Repeat("[", 50) + "1" + strings.Repeat("]", 50)
	return []request{
		argued("4 MiB of `[[],[],...]`", "["+repeat("[]", whole)+"]"),
		argued("65,000 empty arrays, as many values as pass", "["+times("[]", atBound)+"]"),
		argued(`4 MiB of `+"`"+`{"a":1,...}`+"`"+`, member names of their own`, "{"+numbered(`"%06d":1`, whole/11)+"}"),
		argued("65,000 members, as many values as pass", "{"+numbered(`"m%d":1`, atBound)+"}"),
		argued("65,000 members with names of 50 bytes", "{"+numbered(`"`+strings.Repeat("n", 45)+`%05d":1`, atBound)+"}"),
		argued("65,000 objects of one member in a list", "["+times(`{"a":1}`, atBound/2)+"]"),
		argued("4 MiB of `[[[[...`", strings.Repeat("[", whole)),
		argued("1,270 values nested 50 deep", "["+times(deep, 1270)+"]"),
		argued("4 MiB of `\\u0041` in one string", `"`+strings.Repeat(`\u0041`, whole/6)+`"`),
		rpc("4 MiB of escapes `\\n` in a text part", `"messageId":"m","parts":[{"text":"`+strings.Repeat(`\n`, whole/2)+`"}]`, ""),
		argued("4 MiB of controls `\\u0001` in one string", `"`+strings.Repeat(`\u0001`, whole/6)+`"`),
		argued("a number of 4 MiB of digits", strings.Repeat("9", whole)),
		argued("65,000 numbers of 60 digits", "["+times(strings.Repeat("9", 60), atBound)+"]"),
		argued("65,000 numbers `1e308`", "["+times("1e308", atBound)+"]"),
		argued("60 KiB of member names that are not ASCII", "{"+numbered(`"ééﬃ%04d":1`, 5500)+"}"),
		argued("4 MiB of member names that are not ASCII", "{"+numbered(`"`+strings.Repeat("é", 30)+`%05d":1`, whole/69)+"}"),
	}
}

// lists are bodies with more of something than anybody needs.
func lists() []request {
	push := `{"url":"https://%s.example.org/%s","token":"t"}`
	return []request{
		rpc("4 MiB of parts", `"messageId":"m","parts":[`+repeat(`{"text":"x"}`, whole)+`]`, ""),
		rpc("16,000 parts", `"messageId":"m","parts":[`+times(`{"text":"x"}`, 16_000)+`]`, ""),
		rpc("256 parts, as many as pass, of 16 KiB each", `"messageId":"m","parts":[`+times(`{"text":"`+strings.Repeat("x", 16_000)+`"}`, 256)+`]`, ""),
		rpc("65,000 referenceTaskIds", plainMessage+`,"referenceTaskIds":[`+times(`"t"`, atBound)+`]`, ""),
		rpc("64 referenceTaskIds of 60 KiB each", plainMessage+`,"referenceTaskIds":[`+numbered(`"`+strings.Repeat("t", 60<<10)+`%d"`, 64)+`]`, ""),
		metadata("65,000 members of metadata", numbered(`"m%d":1`, atBound)),
		rpc("a messageId of 4 MiB", `"messageId":"`+strings.Repeat("m", whole)+`","parts":[{"text":"x"}]`, ""),
		rpc("a taskId of 4 MiB", `"taskId":"`+strings.Repeat("t", whole)+`",`+plainMessage, ""),
		metadata("a chain of 65,000 links in metadata", `"`+extension+`":{"chain":[`+times(`"a.b.c"`, atBound)+`]}`),
		metadata("a chain of one link of 4 MiB in metadata", `"`+extension+`":{"chain":["`+strings.Repeat("a", whole)+`.b.c"]}`),
		metadata("20,000 scope links in metadata", `"urn:a2a:ext:authorization:v1/capability_token":{"a":1},"urn:a2a:ext:authorization:v1/delegation_chain":[`+times(`{"a":"b"}`, 20_000)+`]`),
		rpc("a push configuration with a URL of 4 MiB", plainMessage, `,"configuration":{"taskPushNotificationConfig":`+fmt.Sprintf(push, "a", strings.Repeat("u", whole))+`}`),
		rpc("a push configuration whose host has 1 MiB of labels", plainMessage, `,"configuration":{"taskPushNotificationConfig":`+fmt.Sprintf(push, strings.Repeat("a.", 1<<19)+"a", "")+`}`),
	}
}

// wires are requests of other bindings, and bodies that come in another way.
func wires() []request {
	chunked := argued("256 KiB in chunks of one byte", `"`+strings.Repeat("x", anonymous)+`"`)
	chunked.chunks = 1
	empty, text := field(5, nil), field(5, field(1, []byte("x"))) // a part: empty, and with text
	entry := func(n int) []byte {                                 // of a Struct: its key and a value
		return field(1, append(field(1, fmt.Appendf(nil, "m%d", n)), field(2, field(3, []byte("v")))...))
	}
	var entries []byte
	for n := range 5000 {
		entries = append(entries, entry(n)...)
	}
	repeated := func(one []byte, n int) []byte { return field(2, []byte(strings.Repeat(string(one), n))) }
	return []request{
		chunked,
		tools("1 MiB of arguments, 60 headers Mcp-Param-*", numbered(`"`+strings.Repeat("n", 10)+`%06d":1`, 55_000), 60),
		tools("65,000 arguments, 60 headers Mcp-Param-*", numbered(`"m%d":"n"`, atBound), 60),
		tools("65,000 arguments, 2,000 headers Mcp-Param-*", numbered(`"m%d":1`, atBound), 2_000),
		rest("38 KB of query by HTTP+JSON", http.MethodGet, "/tasks?"+strings.Repeat("&a=b", 9_500), ""),
		rest("8 KB of query by HTTP+JSON", http.MethodGet, "/tasks?pageToken="+strings.Repeat("%41", 2_700), ""),
		rest("a path of 38 KB by HTTP+JSON", http.MethodGet, "/tasks/"+strings.Repeat("%41", 12_600), ""),
		rest("65,000 members by HTTP+JSON", http.MethodPost, "/message:send", `{"message":{"role":"ROLE_USER",`+plainMessage+`},"metadata":{`+numbered(`"m%d":1`, atBound)+`}}`),
		overGRPC("gRPC: 4 MiB of empty parts", repeated(empty, 2<<20-16)),
		overGRPC("gRPC: 32 KiB of empty parts", repeated(empty, 16_000)),
		overGRPC("gRPC: 8,000 parts with text", repeated(text, 8_000)),
		overGRPC("gRPC: 256 parts of 16 KiB of text", repeated(field(5, field(1, []byte(strings.Repeat("\x01", 16_000)))), 256)),
		overGRPC("gRPC: 4 MiB of unknown fields of two bytes", []byte(strings.Repeat("\x78\x01", whole/2))),
		overGRPC("gRPC: 4 MiB of one number again and again", field(2, []byte(strings.Repeat("\x20\x01", whole/2)))),
		overGRPC("gRPC: 16,000 unknown fields", fields(99, nil, 16_000)),
		overGRPC("gRPC: 5,000 members of metadata", append(field(2, append(field(1, []byte("m")), text...)), field(4, entries)...)),
		overGRPC("gRPC: 16,000 referenceTaskIds", repeated(field(8, []byte("t")), 16_000)),
	}
}

// heads are requests whose headers cost most.
func heads() []request {
	plain := func(name string) request { return rpc(name, plainMessage, "") }
	many := plain("32 KiB of 3,000 headers")
	for n := range 3_000 {
		many.header = append(many.header, [2]string{fmt.Sprintf("X-%d", n), "v"})
	}
	authorization := func(name, value string) request {
		r := plain(name).with([2]string{"Authorization", value})
		r.wrapped = true
		return r
	}
	var caps [][2]string
	for range 1_500 {
		caps = append(caps, [2]string{"Powerbox-Capability", "a.b.c"})
	}
	return []request{
		many,
		plain("60 KB of A2A-Extensions").with([2]string{"A2A-Extensions", times("a", 30_000)}),
		plain("60 KB of A2A-Extensions, in commas").with([2]string{"A2A-Extensions", strings.Repeat(",", 60_000)}),
		plain("60 KB of Powerbox-Capability, links of a chain").with([2]string{"Powerbox-Capability", strings.Repeat("a.b.c~", 10_000)}),
		plain("60 KB of headers Powerbox-Capability, 1,500 lines").with(caps...),
		plain("60 KB of Cookie").with([2]string{"Cookie", strings.Repeat("a=b; ", 12_000)}),
		plain("60 KB of Connection, that names headers").with([2]string{"Connection", times("a", 30_000)}),
		authorization("60 KB of Authorization in pieces", "Bearer "+strings.ReplaceAll(numbered("p%d", 9_000), ",", " ")),
		authorization("60 KB of Authorization, a JWT of one claim", "Bearer e30."+strings.Repeat("A", 60_000)+".c2ln"),
		authorization("60 KB of scope token in Authorization", "A2A-Capability "+strings.Repeat("W10s", 15_000)),
		authorization("8 KB of scope links in Authorization", "A2A-Capability W10."+strings.Repeat("W1tdLFtd", 1_000)),
	}
}

// unidentified are bodies below the bound for callers that show nothing of who they are.
func unidentified() []request {
	const n = anonymousValues
	padded := numbered(`"`+strings.Repeat("n", anonymous/n-14)+`%04d":1`, n) // members that fill what may be sent
	return []request{
		argued("256 KiB, 4,000 members with long names", "{"+padded+"}"),
		argued("256 KiB, 4,000 strings of escapes", "["+times(`"`+strings.Repeat(`\n`, anonymous/n/2-2)+`"`, n)+"]"),
		argued("256 KiB of escapes in one string", `"`+strings.Repeat(`\u0041`, anonymous/6)+`"`),
		argued("256 KiB, 4,000 numbers of 60 digits", "["+times(strings.Repeat("9", 60), n)+"]"),
		argued("256 KiB, one member nested 50 deep, 80 times", "["+times(strings.Repeat(`{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa":`, 50)+"1"+strings.Repeat("}", 50), 75)+"]"),
		argued("256 KiB, 60 KiB of member names that are not ASCII", "{"+numbered(`"éééééﬃ%04d":1`, 3_900)+"}"),
		metadata("256 KiB, 4,000 members of metadata", padded),
		tools("256 KiB, 4,000 arguments, 60 headers Mcp-Param-*", padded, 60),
		rest("256 KiB, 4,000 members by HTTP+JSON", http.MethodPost, "/message:send", `{"message":{"role":"ROLE_USER",`+plainMessage+`},"metadata":{`+padded+`}}`),
		overGRPC("256 KiB by gRPC, 250 parts", field(2, []byte(strings.Repeat(string(field(5, field(1, []byte(strings.Repeat("\x01", 1_000))))), 250)))),
		overGRPC("256 KiB by gRPC, 4,000 referenceTaskIds", field(2, []byte(strings.Repeat(string(field(8, []byte(strings.Repeat("t", 60)))), n)))),
	}
}
