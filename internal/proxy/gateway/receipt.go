package gateway

import (
	"io"
	"net/http"

	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/mcp"
)

// HeaderReceipt asks, with the value metadata, for the receipt of a call in the
// metadata of its answer. The answer says in it when there is none.
const HeaderReceipt = "Powerbox-Receipt"

// asksForReceipt reports whether the caller wants a receipt that can be had. An answer
// says at once where it cannot: over gRPC, and where the log is elsewhere.
func (g *Gateway) asksForReceipt(x *decided, h http.Header) bool {
	if x.request.Header.Get(HeaderReceipt) != "metadata" {
		return false
	}
	if g.config.Receipt == nil || x.call.Binding == a2a.GRPC {
		h.Set(HeaderReceipt, "none")
		return false
	}
	return true
}

// receipted puts the receipt of a call into its answer, where the caller has asked for
// it. The call was made: an answer without a receipt is better than none.
func (g *Gateway) receipted(x *decided, h http.Header, body []byte) []byte {
	if !g.asksForReceipt(x, h) {
		return body
	}
	var out []byte
	put := false
	receipt, err := g.config.Receipt(x.request.Context(), x.verdict.Record.ID)
	if err == nil {
		out, put, err = a2a.WithMetadata(x.call.Binding, body, a2a.MemberReceipt, receipt)
	}
	if err != nil {
		g.config.Log.WarnContext(x.request.Context(), "an answer has no receipt", "agent", x.ID, "record", x.verdict.Record.ID, "error", err)
	}
	if err == nil && put {
		return out
	}
	h.Set(HeaderReceipt, "none")
	return body
}

// receiptedStream puts the receipt into the last event of a stream.
func (g *Gateway) receiptedStream(r *http.Response, x *decided) io.ReadCloser {
	if !g.asksForReceipt(x, r.Header) {
		return r.Body
	}
	return mcp.NewEvents(r.Body, maxAnswer, func(data []byte) (instead []byte, pass bool, err error) {
		if !a2a.EndsStream(data) {
			return nil, true, nil
		}
		return g.receipted(x, http.Header{}, data), true, nil
	})
}

// receiptedResult is a message of an MCP server, or what stands in its place, with the
// receipt where it is the response, behind which nothing comes.
func (g *Gateway) receiptedResult(x *decided, data, instead []byte) []byte {
	if instead == nil {
		instead = data
	}
	if a2a.Member(instead, "result") == nil {
		return instead
	}
	return g.receipted(x, http.Header{}, instead)
}
