package main

import (
	"fmt"
	"strings"
)

// aroundHTTP changes the parts of the request around the body, and returns the family.
func (g *generator) aroundHTTP(r *request) string {
	switch g.rng.IntN(3) {
	case 0:
		g.changePath(r)
		return "path"
	case 1:
		g.changeQuery(r)
		return "query"
	default:
		g.changeHeader(r)
		return "header"
	}
}

// headers are what servers, frameworks and proxies know beside what a call needs.
var headers = [][2]string{
	{"X-HTTP-Method-Override", "GET"},
	{"X-HTTP-Method", "DELETE"},
	{"X-Method-Override", "PUT"},
	{"A2A-Version", "0.3"},
	{"A2A-Version", "1.0"},
	{"a2a_version", "0.3"},
	{"A2A-Version", "1.0, 0.3"},
	{"A2A-Version", ""},
	{"Powerbox-Context", "e30.eyJkZWNpc2lvbiI6InJlY18wIn0.e30"},
	{"powerbox_context", "x"},
	{"POWERBOX-CONTEXT", "x"},
	{"Content-Type", "application/json; charset=utf-16"},
	{"Content-Type", "text/plain"},
	{"Content-Type", "application/x-www-form-urlencoded"},
	{"Content-Type", "application/a2a+json"},
	{"Content-Type", "application/json; charset=iso-8859-1"},
	{"Content-Type", "multipart/form-data; boundary=x"},
	{"Content-Encoding", "gzip"},
	{"Content-Encoding", "identity"},
	{"A2A-Extensions", "https://example.org/x"},
	{"X-A2A-Extensions", "https://example.org/x"},
	{"A2A-Tenant", "t2"},
	{"X-Tenant", "t2"},
	{"X-Forwarded-Prefix", "/t2"},
	{"X-Original-URL", "/t2/message:send"},
	{"X-Rewrite-URL", "/tasks"},
	{"Expect", "100-continue"},
	{"Mcp-Session-Id", "s"},
	{"Mcp-Method", "tools/call"},
	{"Mcp-Name", "export"},
	{"Mcp-Param-Collection", "secret"},
	{"MCP-Protocol-Version", "2025-03-26"},
	{"MCP-Protocol-Version", "2026-07-28"},
	{"Last-Event-ID", "1"},
	{"Powerbox-Capability", wideCapability},
	{"Powerbox-Capability", narrowCapability},
	{"Accept", "*/*"},
	{"Accept", "text/event-stream"},
	{"Host", "example.org"},
	{"Cookie", "tenant=t2"},
	{"Authorization", "Bearer x"},
	{"Trailer", "A2A-Version"},
	{"Connection", "A2A-Version"},
	{"Upgrade", "h2c"},
}

func (g *generator) changeHeader(r *request) {
	switch g.rng.IntN(4) {
	case 0:
		i := g.rng.IntN(len(r.Header))
		r.Header = append(r.Header, r.Header[i])
	case 1:
		i := g.rng.IntN(len(r.Header))
		r.Header[i][0] = g.recased(r.Header[i][0])
		if strings.ContainsFunc(r.Header[i][0], func(c rune) bool { return c > 0x7f }) {
			r.Header[i][0] = strings.ToUpper(strings.Map(func(c rune) rune { return min(c, 'z') }, r.Header[i][0]))
		}
	case 2:
		i := g.rng.IntN(len(r.Header))
		r.Header = append(r.Header[:i], r.Header[i+1:]...)
	default:
		h := one(g, headers)
		at := g.rng.IntN(len(r.Header) + 1)
		r.Header = append(r.Header[:at], append([][2]string{h}, r.Header[at:]...)...)
	}
}

func (g *generator) changeQuery(r *request) {
	names := []string{
		"tenant", "tenant[]", "Tenant", "tenant%00", "t%65nant", "contextId", "context_id", "contextId[]", "contextId[x]", "id", "taskId", "A2A-Version", "a2a-version", "_method", "method", "historyLength", "pageToken",
		"status", "includeArtifacts", "skill", "__proto__[tenant]", "constructor[prototype][tenant]", "$alt",
	}
	values := []string{"t2", foreignContext, foreignTask, ownContext, ownTask, "0.3", "1.0", "GET", "DELETE", "", "1", "-1", "export", "%00", "a%26tenant=t2", "t2;tenant=t3"}
	for range 1 + g.rng.IntN(2) {
		sep := "?"
		if strings.Contains(r.Target, "?") {
			sep = one(g, []string{"&", "&", "&", ";", "?"})
		}
		r.Target += sep + one(g, names) + one(g, []string{"=", "=", "=", ""}) + one(g, values)
	}
}

func (g *generator) changePath(r *request) {
	base := "/agents/" + r.agent()
	rest, query, asked := strings.Cut(strings.TrimPrefix(r.Target, base), "?")
	switch g.rng.IntN(10) {
	case 0: // a character in another spelling
		if len(rest) > 0 {
			at := g.rng.IntN(len(rest))
			rest = rest[:at] + fmt.Sprintf(one(g, []string{"%%%02x", "%%%02X", "%%25%02X"}), rest[at]) + rest[at+1:]
		}
	case 1:
		rest += one(g, []string{"/", "//", "/.", "/..", "%2f", ";x=y", "%00", "%20", "#", ".", ":", ":subscribe", ":cancel"})
	case 2:
		rest = one(g, []string{"/t2", "//", "/./", "/t1/../t2", "/t2%2ft3", "/%74%32", "/v1", "/V1", "/skills/export", "/skills/search", "/skills/delete", "/tenants/t2", "/;", "/tasks", "/__proto__"}) + rest
	case 3:
		at := strings.LastIndex(rest, "/")
		if at >= 0 {
			rest = rest[:at] + one(g, []string{"//", "/./", "/../", "%2F", "\\", "/x/../"}) + rest[at+1:]
		}
	case 4:
		rest = g.swapCase(rest)
	case 5:
		rest = strings.Replace(rest, ownTask, one(g, []string{foreignTask, ownTask + "%2f", "%30" + ownTask[1:], ownTask + "%00", foreignTask + "%2f..%2f" + ownTask, ownTask + ";" + foreignTask, strings.ToUpper(ownTask)}), 1)
	case 6:
		rest = strings.Replace(rest, ":", one(g, []string{"%3A", "%3a", "::", "/"}), 1)
	case 7:
		r.Method = one(g, []string{"POST", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "post", "QUERY"})
		if r.Method == "GET" && strings.HasPrefix(r.Binding, "mcp/") { // a stream that has no end
			r.Method = "PUT"
		}
	case 8:
		rest = one(g, []string{"/message:send", "/message:stream", "/v1/message:send", "/tasks", "/tasks/" + ownTask, "/tasks/" + ownTask + ":cancel", "/tasks/" + foreignTask, "/t1/tasks", "/t1/tasks/" + ownTask, "/v1/tasks/" + ownTask, "/extendedAgentCard", "/rpc"})
	default:
		base = one(g, []string{"/agents//" + r.agent(), "/Agents/" + r.agent(), "/agents/%" + fmt.Sprintf("%02x", r.agent()[0]) + r.agent()[1:], "//agents/" + r.agent(), "/agents/x/../" + r.agent()})
	}
	r.Target = base + rest
	if asked {
		r.Target += "?" + query
	}
}

func (g *generator) swapCase(text string) string {
	if text == "" {
		return text
	}
	at := g.rng.IntN(len(text))
	return text[:at] + strings.ToUpper(text[at:at+1]) + text[at+1:]
}
