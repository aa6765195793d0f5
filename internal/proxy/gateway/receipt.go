package gateway

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"

	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/mcp"
)

// HeaderReceipt asks for the receipt of a call in the metadata of its answer: with the value
// metadata for that of the decision, with the value outcome for that of the outcome, too. The
// answer says in it where it has fewer. gRPC has receipts in the metadata that a call ends
// with, under TrailerReceipt and TrailerOutcomeReceipt.
const (
	HeaderReceipt         = "Powerbox-Receipt"
	TrailerReceipt        = "Powerbox-Receipt-Bin"
	TrailerOutcomeReceipt = "Powerbox-Outcome-Receipt-Bin"

	receiptMetadata = "metadata" // of the decision, asked for and there
	receiptOutcome  = "outcome"  // of the outcome, too
	receiptNone     = "none"
)

func (x *decided) wantsReceipt() bool { return wantsReceipt(x.request.Header) }

func wantsReceipt(h http.Header) bool {
	asked := h.Get(HeaderReceipt)
	return asked == receiptMetadata || asked == receiptOutcome
}

// asksForReceipt reports whether the caller wants a receipt that can be had. An answer
// says at once where it cannot.
func (g *Gateway) asksForReceipt(x *decided, h http.Header) bool {
	if !x.wantsReceipt() {
		return false
	}
	if g.config.Receipt == nil {
		h.Set(HeaderReceipt, receiptNone)
		return false
	}
	return true
}

// receipts are what a caller gets that asked for receipts: of the decision, and of the
// outcome where it asked for that.
type receipts struct {
	decision, outcome []byte
}

// said is what the answer says in [HeaderReceipt] where a receipt is missing.
func (r receipts) said(x *decided) string {
	switch {
	case r.decision == nil:
		return receiptNone
	case r.outcome == nil && x.request.Header.Get(HeaderReceipt) == receiptOutcome:
		return receiptMetadata
	}
	return ""
}

// receiptsOf makes the receipts of a concluded call. The call was made: an answer without a
// receipt is better than none.
func (g *Gateway) receiptsOf(x *concluded) (r receipts) {
	ctx := x.request.Context()
	var err, wrong error
	r.decision, err = g.config.Receipt(ctx, x.verdict.Record.ID)
	if err == nil && x.request.Header.Get(HeaderReceipt) == receiptOutcome {
		if wrong = errNoOutcome; x.learned.outcome != "" {
			r.outcome, wrong = g.config.Receipt(ctx, x.learned.outcome)
		}
	}
	if err = errors.Join(err, wrong); err != nil {
		g.config.Log.WarnContext(ctx, "an answer lacks a receipt", "agent", x.ID, "record", x.verdict.Record.ID, "error", err)
	}
	return r
}

var errNoOutcome = errors.New("the outcome has no record")

// receipted puts the receipts of a call into its answer, where the caller has asked for
// them.
func (g *Gateway) receipted(x *concluded, h http.Header, body []byte) []byte {
	if !g.asksForReceipt(x.decided, h) {
		return body
	}
	r := g.receiptsOf(x)
	out, put := g.putReceipt(x, body, a2a.MemberReceipt, r.decision)
	if !put {
		r.decision = nil
	} else if r.outcome != nil {
		out, _ = g.putReceipt(x, out, a2a.MemberOutcomeReceipt, r.outcome)
	}
	if said := r.said(x.decided); said != "" {
		h.Set(HeaderReceipt, said)
	}
	return out
}

// putReceipt returns the answer as it is where it has no place for the receipt.
func (g *Gateway) putReceipt(x *concluded, body []byte, member string, receipt []byte) (out []byte, put bool) {
	if receipt == nil {
		return body, false
	}
	out, put, err := a2a.WithMetadata(x.call.Binding, body, member, receipt)
	if err != nil {
		g.config.Log.WarnContext(x.request.Context(), "an answer lacks a receipt", "agent", x.ID, "record", x.verdict.Record.ID, "error", err)
		return body, false
	}
	return out, put
}

// receiptedStream puts the receipts into the last event of a stream, whose outcome is on
// record by then.
func (g *Gateway) receiptedStream(s *stream) io.ReadCloser {
	x := s.call
	if !g.asksForReceipt(x, s.response.Header) {
		return s
	}
	return mcp.NewEvents(s, maxAnswer, func(data []byte) (instead []byte, pass bool, err error) {
		last := a2a.EndsStream(data)
		if x.call.Binding == a2a.MCP {
			last = a2a.Member(data, "result") != nil
		}
		if done := s.done; last && done != nil {
			instead = g.receipted(done, http.Header{}, data)
		}
		return instead, true, nil
	})
}

// receiptedTrailer puts the receipts into the metadata that a call of gRPC ends with.
func (g *Gateway) receiptedTrailer(r *http.Response, x *concluded) {
	if !x.wantsReceipt() {
		return
	}
	if r.Trailer == nil {
		r.Trailer = http.Header{}
	}
	if !g.asksForReceipt(x.decided, r.Trailer) {
		return
	}
	all := g.receiptsOf(x)
	for name, receipt := range map[string][]byte{TrailerReceipt: all.decision, TrailerOutcomeReceipt: all.outcome} {
		if receipt != nil {
			r.Trailer.Set(name, base64.RawStdEncoding.EncodeToString(receipt)) // as gRPC has binary metadata
		}
	}
	if said := all.said(x.decided); said != "" {
		r.Trailer.Set(HeaderReceipt, said)
	}
}
