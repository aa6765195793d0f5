package gateway

import (
	"bytes"
	"encoding/base64"
	"net/http"

	"github.com/powerbox-project/powerbox/internal/wire/mcp"
)

// A server of MCP can end the stream of a request before it responds. Its client asks for
// the rest by GET, with the id of the last event. Kits take a response from any stream by the
// id of its request, so a server could answer one request in the stream of another one, past
// the decision and the record of it (ATK-148). So ids of events that clients get name
// their request, under a seal, and the rest of a stream has the response to that request alone.

// headerLastEvent is by what a client says where it resumes a stream.
const headerLastEvent = "Last-Event-Id"

// ofEvent is what the id of an event is bound to.
func ofEvent(agent, context string) []byte { return []byte("mcp event\x00" + agent + "\x00" + context) }

// resumable is the id of an event as the client gets it: it names the request whose stream
// it is in. The answer to the first request of a session names the session.
func (g *Gateway) resumable(x *decoded, answer http.Header, id []byte) string {
	context := x.call.Context
	if session := answer.Get(mcp.HeaderSession); session != "" {
		context = sessionPrefix + session
	}
	plain := append(append(bytes.Clone(x.mcp.ID), 0), id...)
	sealed := g.config.Pages.Seal(nil, nil, plain, ofEvent(x.ID, context)) //nolint:gosec // the nonce is random, and Pages puts it in front
	return base64.RawURLEncoding.EncodeToString(sealed)
}

// resumed returns the id of the request whose stream a client resumes, and the server's id of
// the last event. It returns nothing for a stream that no request began.
func (g *Gateway) resumed(agent, context string, h http.Header) (request []byte, event string) {
	last := h.Values(headerLastEvent)
	if len(last) != 1 {
		return nil, ""
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(last[0])
	if err != nil || len(sealed) < g.config.Pages.Overhead() {
		return nil, ""
	}
	plain, err := g.config.Pages.Open(nil, nil, sealed, ofEvent(agent, context))
	request, id, found := bytes.Cut(plain, []byte{0})
	if err != nil || !found {
		return nil, ""
	}
	return request, string(id)
}
