package powerboxa2a

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/holder"
	"github.com/powerbox-project/powerbox/token"
)

// maxBody bounds the body of a request.
const maxBody = 16 << 20

// cardPaths are what every agent shows to everybody; the gateway reads them
// itself, without a context.
var cardPaths = []string{cardPath, "/.well-known/agent.json"}

// Handler refuses what comes past the gateway before next gets any of it. It is
// for the JSON-RPC and REST handlers of a2asrv, and for a grpc.Server that is
// served by its ServeHTTP; a gRPC server with a listener of its own takes
// [Inbound.ServerOptions]. next gets the body's bytes as they came, and neither
// the signed context nor the delegations of the call: both are in the [Task]. The
// card at the well-known path stays open; one that is served elsewhere stays
// outside.
func (in *Inbound) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && isCard(r.URL.EscapedPath()) {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, "the body cannot be read, or has more than 16 MiB", http.StatusRequestEntityTooLarge)
			return
		}
		task, err := in.admit(r.Context(), strings.Join(r.Header.Values(HeaderContext), ","), body)
		if err != nil {
			in.config.Log.WarnContext(r.Context(), "a call is refused: it did not come through the gateway", "error", err)
			refuse(w, r, body, err)
			return
		}
		task.receiveHeader(r.Context(), strings.Join(r.Header.Values(holder.HeaderDelegation), ","))
		out := r.WithContext(withTask(r.Context(), task))
		out.Header = r.Header.Clone()
		out.Header.Del(HeaderContext)
		out.Header.Del(holder.HeaderDelegation)
		out.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, out)
	})
}

// isCard compares the whole path as it was sent: part of it could be the id of a
// task.
func isCard(path string) bool { return slices.Contains(cardPaths, path) }

// refusal is what a caller that came past the gateway is told.
func refusal(err error) (code powerbox.Code, text string) {
	code, text = gate.CodeUnavailable, "what the gateway signs cannot be verified now"
	if wrong := (*token.Error)(nil); errors.As(err, &wrong) {
		code, text = wrong.Code, wrong.Message
	}
	if wrong := (*errContext)(nil); errors.As(err, &wrong) {
		code, text = wrong.code, wrong.text
	}
	return code, "No valid context of the gateway came with this call: " + strings.TrimSuffix(text, ".") + "; send it to the agent's public URL."
}

func retryable(code powerbox.Code) string { return strconv.FormatBool(code == gate.CodeUnavailable) }

// The forms of an error in each binding (A2A 1.0, sections 9 to 11).
const (
	codeUnauthenticated = -31401
	typeEvents          = "text/event-stream"
	infoType            = "type.googleapis.com/google.rpc.ErrorInfo"
)

type errorInfo struct {
	Type     string            `json:"@type"`
	Reason   string            `json:"reason"`
	Domain   string            `json:"domain"`
	Metadata map[string]string `json:"metadata"`
}

// refuse answers UNAUTHENTICATED in the form of the binding, which the body and
// its type show.
func refuse(w http.ResponseWriter, r *http.Request, body []byte, why error) {
	code, text := refusal(why)
	info := []errorInfo{{infoType, "UNAUTHENTICATED", "a2a-protocol.org", map[string]string{"code": string(code), "retryable": retryable(code)}}}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		// A call that ends before it began says so in its headers.
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", strconv.Itoa(16))
		w.Header().Set("Grpc-Message", escaped(text))
		w.WriteHeader(http.StatusOK)
		return
	}
	status, answer := http.StatusUnauthorized, any(map[string]any{"error": map[string]any{
		"code": http.StatusUnauthorized, "status": "UNAUTHENTICATED", "message": text, "details": info,
	}})
	id, streams, ok := rpcCall(body)
	if ok {
		// SDKs lose the body of other answers than 200 (extension, section 5).
		status, answer = http.StatusOK, map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{
			"code": codeUnauthenticated, "message": text, "data": info,
		}}
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		raw = []byte("null") // it is made of texts
	}
	kind := "application/json"
	if streams {
		// Clients of a stream take an answer that is none for one that has ended.
		kind, raw = typeEvents, []byte("data: "+string(raw)+"\n\n")
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(raw) // the client has gone: there is no caller to tell
}

// streaming are the methods of both versions that are answered by a stream.
var streaming = []string{"SendStreamingMessage", "SubscribeToTask", "message/stream", "tasks/resubscribe"}

// rpcCall reports whether a body is a JSON-RPC request, its id, and whether it
// is answered by a stream.
func rpcCall(body []byte) (id json.RawMessage, streams, ok bool) {
	v, err := powerbox.DecodeValue(body, powerbox.Limits{Bytes: maxBody, Depth: 64})
	if _, ok := v.Get("jsonrpc"); err != nil || !ok {
		return nil, false, false
	}
	member, _ := v.Get("id")
	method, _ := v.Get("method")
	name, _ := method.Text()
	return member.AppendJSON(nil), slices.Contains(streaming, name), true
}

// escaped is a text as in gRPC in a header.
func escaped(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '%' {
			b.WriteString("%" + strings.ToUpper(strconv.FormatInt(0x100|int64(c), 16)[1:]))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

type taskKey struct{}

func withTask(ctx context.Context, t *Task) context.Context {
	return context.WithValue(ctx, taskKey{}, t)
}

// TaskFrom returns the task that a call is worked on under, false where the
// call did not come through an [Inbound].
func TaskFrom(ctx context.Context) (*Task, bool) {
	t, ok := ctx.Value(taskKey{}).(*Task)
	return t, ok && t != nil
}
