package attach

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/a2apb"
)

// The types of answers.
const (
	typeJSON   = "application/json"
	typeEvents = "text/event-stream"
	typeGRPC   = "application/grpc"
)

// maxAnswer bounds the memory for one answer, or for one event of a stream, to
// learn the tasks in it. Longer ones pass and teach nothing.
const maxAnswer = 16 << 20

// look has the answer read before the client can know its contents.
func look(r *http.Response, p passed) error {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case p.call.Binding == a2a.GRPC && p.call.Method == a2a.GetExtendedCard && p.card.PublicURL != "":
		return wholeCard(r, p)
	case p.call.Binding == a2a.GRPC:
		r.Body = &watched{r.Body, a2apb.NewFrames(maxAnswer, func(message []byte, whole bool) {
			if payload, err := a2apb.JSON(p.call.Wire, message); whole && err == nil {
				p.answer(payload)
			}
		})}
	case kind == typeEvents && (p.call.Method.Streams() || p.call.Method == a2a.Unknown):
		// Kits read the answer to each other call as one text, whatever its type (ATK-147).
		r.Body = &watched{r.Body, a2a.NewFrames(maxAnswer, func(payload []byte, whole bool) {
			if whole {
				p.answer(payload)
			}
		})}
	default:
		return whole(r, p)
	}
	return nil
}

// whole reads an answer that is no stream.
func whole(r *http.Response, p passed) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer+1))
	if err != nil {
		return err
	}
	if len(body) > maxAnswer {
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
		return nil
	}
	_ = r.Body.Close() // it has been read to its end
	p.answer(body)
	if p.call.Method == a2a.GetExtendedCard && p.card.PublicURL != "" && r.StatusCode < http.StatusBadRequest {
		if p.call.Binding == a2a.HTTPJSON {
			body, err = p.rewrite(body)
		} else {
			body, err = a2a.RewriteCardAnswer(body, p.rewrite)
		}
		if err != nil {
			return err // it would lead past us
		}
	}
	return give(r, body)
}

// rewrite makes a card lead where ours does.
func (p passed) rewrite(card []byte) ([]byte, error) { return a2a.RewriteCard(card, p.card) }

// give sets the body of an answer.
func give(r *http.Response, body []byte) error {
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	r.ContentLength = int64(len(body))
	if len(r.Trailer) > 0 {
		// Nothing comes behind a body whose length is told.
		r.Header.Del("Content-Length")
		r.ContentLength = -1
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// wholeCard gives the card in an answer of gRPC our URLs.
func wholeCard(r *http.Response, p passed) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	if err != nil || len(body) == 0 {
		r.Body = io.NopCloser(bytes.NewReader(nil))
		return err
	}
	message, err := a2apb.Unframe(body)
	if err != nil {
		return err
	}
	if message, err = a2apb.RewriteCard(p.call.Wire, message, p.rewrite); err != nil {
		return err
	}
	r.Header.Del("Content-Length")
	r.ContentLength = -1
	r.Body = io.NopCloser(bytes.NewReader(a2apb.Frame(message)))
	return nil
}

// watched shows every piece of a stream to a splitter before it continues.
type watched struct {
	io.ReadCloser
	frames interface {
		io.Writer
		Close()
	}
}

// Read implements io.Reader.
func (s *watched) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	_, _ = s.frames.Write(p[:n]) // never fails
	if err != nil {
		s.frames.Close()
	}
	return n, err
}
