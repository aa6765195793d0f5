package a2a

import (
	"net/http"
	"strconv"
	"time"
)

// form is how the bindings say one kind of error.
type form struct {
	reason string // of google.rpc.ErrorInfo, in a2a-go's words
	http   int    // status in HTTP+JSON
	status string // google.rpc.Code by name
	grpc   int    // the same as a number
}

// forms are the errors of A2A 1.0.1, section 5.4, and those that it leaves to
// JSON-RPC, HTTP and gRPC, by the code that JSON-RPC has for them.
var forms = map[int]form{
	CodeParse:               {"PARSE_ERROR", http.StatusBadRequest, "INVALID_ARGUMENT", 3},
	CodeInvalidRequest:      {"INVALID_REQUEST", http.StatusBadRequest, "INVALID_ARGUMENT", 3},
	CodeMethodNotFound:      {"METHOD_NOT_FOUND", http.StatusNotImplemented, "UNIMPLEMENTED", 12},
	CodeInvalidParams:       {"INVALID_PARAMS", http.StatusBadRequest, "INVALID_ARGUMENT", 3},
	CodeInternal:            {"INTERNAL_ERROR", http.StatusInternalServerError, "INTERNAL", 13},
	CodeTaskNotFound:        {"TASK_NOT_FOUND", http.StatusNotFound, "NOT_FOUND", 5},
	CodePushNotSupported:    {"PUSH_NOTIFICATION_NOT_SUPPORTED", http.StatusBadRequest, "FAILED_PRECONDITION", 9},
	CodeUnsupported:         {"UNSUPPORTED_OPERATION", http.StatusBadRequest, "FAILED_PRECONDITION", 9},
	CodeExtensionRequired:   {"EXTENSION_SUPPORT_REQUIRED", http.StatusBadRequest, "FAILED_PRECONDITION", 9},
	codeContentType:         {"CONTENT_TYPE_NOT_SUPPORTED", http.StatusUnsupportedMediaType, "INVALID_ARGUMENT", 3},
	CodeVersionNotSupported: {"VERSION_NOT_SUPPORTED", http.StatusBadRequest, "FAILED_PRECONDITION", 9},
	CodeUnauthenticated:     {"UNAUTHENTICATED", http.StatusUnauthorized, "UNAUTHENTICATED", 16},
	CodeUnauthorized:        {"UNAUTHORIZED", http.StatusForbidden, "PERMISSION_DENIED", 7},
}

// form returns how the denial is written. A code that is in no table is our own failure.
func (d Denial) form() form {
	f, ok := forms[d.code()]
	if !ok {
		f = forms[CodeInternal]
	}
	if d.Away {
		f.http, f.status, f.grpc = http.StatusServiceUnavailable, "UNAVAILABLE", 14
	}
	return f
}

// HTTP returns the answer in HTTP+JSON: a status and google.rpc.Status as JSON.
func (d Denial) HTTP() (status int, body []byte) {
	f := d.form()
	var inner, o rawObject
	inner.set("code", strconv.AppendInt(nil, int64(f.http), 10))
	inner.set("status", quote(f.status))
	inner.set("message", quote(d.Text()))
	inner.set("details", writeArray([][]byte{d.info(d.metadata(HTTPJSON))}))
	o.set("error", inner.bytes())
	return f.http, o.bytes()
}

// HTTPEvent returns the same as one event of a stream.
func (d Denial) HTTPEvent() []byte {
	_, body := d.HTTP()
	return append(append([]byte("data: "), body...), "\n\n"...)
}

// RPCStatus is a denial as gRPC says it.
type RPCStatus struct {
	Code     int    // google.rpc.Code
	Message  string // the text that the caller's model reads
	Reason   string // of google.rpc.ErrorInfo
	Domain   string
	Metadata map[string]string
}

// GRPC returns the status in gRPC.
func (d Denial) GRPC() RPCStatus {
	f := d.form()
	s := RPCStatus{Code: f.grpc, Message: d.Text(), Reason: f.reason, Domain: domain, Metadata: map[string]string{}}
	for _, m := range d.metadata(GRPC) {
		s.Metadata[m.name] = rawText(m.value)
	}
	return s
}

const domain = "a2a-protocol.org"

// catalogue is the page that has an anchor for every code; a test holds it to the
// code.
const catalogue = "https://github.com/powerbox-project/powerbox/blob/main/docs/reference/denials.md"

// DocOf returns where people read what a code means and what to do about it, ""
// for no code. Nothing of the call is in it.
func DocOf(code string) string {
	if code == "" {
		return ""
	}
	return catalogue + "#" + code
}

// Event returns the denial as one event of a stream of server-sent events. A
// streaming client of a2a-go reads errors of JSON-RPC nowhere else.
func (d Denial) Event(b Binding, id []byte) []byte {
	if b == HTTPJSON {
		return d.HTTPEvent()
	}
	return append(append([]byte("data: "), d.JSONRPC(id)...), "\n\n"...)
}

// info returns the google.rpc.ErrorInfo. Only its metadata survives in every
// binding and SDK, so everything of ours is in there.
func (d Denial) info(metadata rawObject) []byte {
	var o rawObject
	o.set("@type", quote("type.googleapis.com/google.rpc.ErrorInfo"))
	o.set("domain", quote(domain))
	if len(metadata) > 0 {
		o.set("metadata", metadata.bytes())
	}
	o.set("reason", quote(d.form().reason))
	return o.bytes()
}

// metadata returns strings only, as in ErrorInfo. The missing set is the text of a
// JSON array, since an operation's name may contain any character. A task that is not
// there gets the answer of a2a-go in that binding, and no more.
func (d Denial) metadata(b Binding) rawObject {
	var o rawObject
	set := func(name, value string) {
		if value != "" {
			o.set(name, quote(value))
		}
	}
	unknown := d.code() == CodeTaskNotFound
	if !unknown {
		set("code", d.Reason)
		set("doc", DocOf(d.Reason))
		set("retryable", strconv.FormatBool(d.Retryable))
	}
	if unknown && b == HTTPJSON {
		set("taskId", d.Task)
	}
	if len(d.Missing) > 0 {
		set("missing", string(quoteAll(d.missing())))
	}
	set("fix", d.Fix)
	set("decision", d.DecisionID)
	set("approvalUrl", d.ApprovalURL)
	if !d.At.IsZero() && (!unknown || b != GRPC) {
		set("timestamp", d.At.UTC().Format(time.RFC3339))
	}
	return o
}
