package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// Kits look at the status and the type of an answer before they read it, and each takes
// others. The kit of A2A for Go takes the status 200 alone, and reads events under every
// type. The kit for JavaScript takes each status of success, and reads events under each
// type that begins as theirs. So an answer that was read gets the status and the type that
// all kits take for its contents (ATK-136).

// errSwitched is an answer by which a connection becomes another protocol. Nothing asked
// for that, and net/http's proxy passes none on.
var errSwitched = errors.New("the agent switches to another protocol, which the gateway did not ask for")

// isSuccess reports whether a status says that a call succeeded.
func isSuccess(r *http.Response) bool {
	return r.StatusCode >= http.StatusOK && r.StatusCode < http.StatusMultipleChoices
}

// asRead gives an answer that has contents the status and the type of these.
func (x *decoded) asRead(r *http.Response, kind string) {
	if x.mode == gate.Observe || !isSuccess(r) || x.isUnread() {
		return
	}
	r.StatusCode, r.Status = http.StatusOK, ""
	for _, name := range []string{"Content-Range", "Content-Type"} {
		delete(r.Header, name)
	}
	r.Header.Set("Content-Type", kind)
}

// isUnread reports whether only configuration knows the method, so that nothing is read of
// the answer.
func (x *decoded) isUnread() bool {
	return x.call.Method == a2a.Unknown && x.call.Binding != a2a.MCP
}

// inEvents reports whether an answer of that type is read as events. Kits read the answer to
// a call that asks for no stream as one text of JSON under every type (ATK-147). An answer
// in observe passes as it came.
func (x *decoded) inEvents(kind string) bool {
	asked := x.call.Method.Streams() || x.call.Binding == a2a.MCP || x.isUnread()
	return kind == typeEvents && (asked || x.mode == gate.Observe)
}

// asReadWhole is asRead for an answer in one piece, whose body was judged.
func (x *decoded) asReadWhole(r *http.Response, body []byte) {
	if len(bytes.TrimSpace(body)) == 0 {
		return
	}
	kind, err := kindOf(r.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(kind, "application/") || kind != typeJSON && !strings.HasSuffix(kind, "+json") {
		kind = typeJSON
	}
	x.asRead(r, kind)
}

// oneAnswer returns why kits may read an answer in one piece differently. One that is no
// object could be events, which some kits read under every type.
func (x *decoded) oneAnswer(r *http.Response, said a2a.Response, body []byte) error {
	listed := x.call.Method == a2a.ListPushConfigs || x.call.Method == a2a.DeletePushConfig // of 0.3
	read := x.mode != gate.Observe && x.call.Binding == a2a.HTTPJSON && !x.isUnread() && !listed
	if text := bytes.TrimLeft(body, " \t\r\n\uFEFF"); read && isSuccess(r) && !bytes.HasPrefix(text, []byte("{")) {
		return errors.New("the answer is no object of JSON, and clients could read events in it")
	}
	return x.oneReading(said, body)
}

// isOfGRPC reports whether the status of HTTP and the type of an answer are those of gRPC.
// Some kits take each other one for a failure, whatever its trailers say.
func isOfGRPC(r *http.Response) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return r.StatusCode == http.StatusOK && len(r.Header["Content-Type"]) == 1 && slices.Contains([]string{typeGRPC, typeGRPC + "+proto"}, kind)
}

// final returns why an answer is neither a success nor a failure. One that leads on would
// send the caller past the gateway, or with its credentials to another agent behind this one.
// One that says that nothing has changed answers a question that no call asks.
func final(r *http.Response) error {
	switch {
	case r.StatusCode == http.StatusNotModified:
		return errors.New("the agent says that its answer has not changed (status 304), which was not asked")
	case r.StatusCode >= http.StatusMultipleChoices && r.StatusCode < http.StatusBadRequest:
		return fmt.Errorf("the agent redirects its callers (status %d); set agents[].upstream to the URL where it answers", r.StatusCode)
	}
	return nil
}

// whole reads an answer to its end, within a limit.
func whole(r *http.Response) ([]byte, error) {
	body, err := readAll(io.LimitReader(r.Body, maxAnswer+1), r.ContentLength)
	if err != nil {
		return nil, err
	}
	_ = r.Body.Close() // it has been read to its end
	if len(body) > maxAnswer {
		return nil, errors.New("the answer is larger than 16 MiB")
	}
	return body, nil
}
