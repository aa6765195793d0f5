package a2a

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
)

// JSON-RPC error codes: those of JSON-RPC 2.0, of A2A 1.0 section 5.4, and the two of
// a2a-go for errors that A2A leaves unnumbered.
const (
	CodeParse               = -32700
	CodeInvalidRequest      = -32600
	CodeMethodNotFound      = -32601
	CodeInvalidParams       = -32602
	CodeInternal            = -32603
	CodeTaskNotFound        = -32001
	CodePushNotSupported    = -32003
	CodeUnsupported         = -32004
	codeContentType         = -32005
	CodeNoExtendedCard      = -32007
	CodeExtensionRequired   = -32008
	CodeVersionNotSupported = -32009
	CodeUnauthenticated     = -31401
	CodeUnauthorized        = -31403
)

// Reasons of errors that the envelope itself gives. They are stable; callers
// may act on them.
const (
	ReasonSyntax     = "syntax"                 // not JSON, or not JSON that all readers agree on
	ReasonTooLarge   = "request_too_large"      // beyond the limits
	ReasonBatch      = "batch_not_accepted"     // send one call at a time
	ReasonEnvelope   = "envelope"               // not a JSON-RPC 2.0 request, or no body of JSON
	ReasonVariant    = "member_ambiguous"       // a member name that readers take differently
	ReasonVersion    = "version_not_supported"  // neither 1.0 nor 0.3
	ReasonExtension  = "extension_required"     // the agent demands an extension that the call does not ask for
	ReasonMethod     = "method_unknown"         // not in the table
	ReasonParams     = "params"                 // wrong type, or a required member is missing
	ReasonMember     = "member_unknown"         // a member that does not exist
	ReasonAttenuated = "attenuation_not_listed" // an attenuation of a capability that the call does not list
	ReasonTask       = "task_ambiguous"         // two different tasks, contexts or tenants in one call
	ReasonSkill      = "skill_ambiguous"        // two different skills, or arguments, in one call
	ReasonPath       = "path"                   // a path that servers resolve differently
	ReasonQuery      = "query"                  // a query that readers read differently
	ReasonPush       = "push_address"           // events may not be posted there, or with that
	ReasonNoTask     = "task_not_found"         // no such task, or not the caller's
)

// IsMistake reports whether a reason is that of an [Error]: the caller should correct the
// call, and no authority helps.
func IsMistake(reason string) bool {
	switch reason {
	case ReasonSyntax, ReasonTooLarge, ReasonBatch, ReasonEnvelope, ReasonVariant, ReasonVersion, ReasonExtension, ReasonMethod,
		ReasonParams, ReasonMember, ReasonAttenuated, ReasonTask, ReasonSkill, ReasonPath, ReasonQuery:
		return true
	}
	return false
}

// Error is a mistake in a call, found before anything is decided about it. The caller
// should fix the call; sending it again is useless.
type Error struct {
	Code    int    // JSON-RPC error code
	Reason  string // stable, such as skill_ambiguous
	Message string // what, where, and what would be right
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Denial returns the answer to the caller.
func (e *Error) Denial() Denial {
	return Denial{Code: e.Code, Reason: e.Reason, Message: e.Message}
}

func invalidRequest(reason, format string, args ...any) *Error {
	return &Error{CodeInvalidRequest, reason, fmt.Sprintf(format, args...)}
}

func invalidParams(reason, format string, args ...any) *Error {
	return &Error{CodeInvalidParams, reason, fmt.Sprintf(format, args...)}
}

// NoCall says that a request is no call at all, for a reason that HTTP has; nil for
// none.
func NoCall(why error) *Error {
	if why == nil {
		return nil
	}
	return invalidRequest(ReasonEnvelope, "%v", why)
}

// MethodNotFound is the answer to a method that is not in the table and that
// no configuration lets through.
func MethodNotFound(by Binding, wire string) *Error {
	want := "A2A 1.0, of A2A 0.3,"
	if by == MCP {
		want = "MCP, which this server speaks,"
	}
	return &Error{CodeMethodNotFound, ReasonMethod, fmt.Sprintf("method %q is not known here; want one of %s or of %s", wire, want, ExtensionURI)}
}

// Denial is one refusal as the caller gets it: everything that a program needs
// to act on and one sentence for a model. It never carries the permitted
// value of a constraint, nor a secret.
type Denial struct {
	Code        int       // JSON-RPC error code; 0 is CodeUnauthorized
	Reason      string    // stable reason code, such as operation_not_granted
	Message     string    // one sentence; "" is made from the rest
	Missing     []string  // operations that the caller lacks (GATE-3)
	Retryable   bool      // the same call may succeed later
	Fix         string    // what the caller can do instead; "" when nothing
	DecisionID  string    // the evidence record
	Task        string    // that the URL names, for the answer of HTTP+JSON about a task that is not there
	ApprovalURL string    // where a person may be asked; "" when no person may
	At          time.Time // given to the caller as timestamp when not zero
	Away        bool      // something that the gateway needs is away: 503, and UNAVAILABLE in gRPC
}

// HowToRequest is added to the sentence of a denial for want of a capability.
const HowToRequest = "; request one with a2a/capabilities/request"

// ReadDenial is the denial that an error of that code, message and metadata says, as far
// as a caller is told of it.
func ReadDenial(code int, message string, metadata map[string]string) Denial {
	d := Denial{
		Code: code, Reason: metadata["code"], Message: message, Fix: metadata["fix"], DecisionID: metadata["decision"],
		ApprovalURL: metadata["approvalUrl"], Retryable: metadata["retryable"] == "true",
	}
	if json.Unmarshal([]byte(metadata["missing"]), &d.Missing) != nil {
		d.Missing = nil // absent, or not ours
	}
	return d
}

// code returns the JSON-RPC error code.
func (d Denial) code() int {
	if d.Code == 0 {
		return CodeUnauthorized
	}
	return d.Code
}

// Text returns the sentence that the caller's model reads. It begins with the
// missing set where there is one (GATE-3), and says whether to try again,
// because a model that is not told repeats the call.
func (d Denial) Text() string {
	var parts []string
	if len(d.Missing) > 0 {
		parts = append(parts, powerbox.Violation(d.Missing))
	}
	switch {
	case d.Message != "":
		parts = append(parts, strings.TrimSuffix(d.Message, "."))
	case len(d.Missing) > 0:
	case d.code() == CodeUnauthenticated:
		parts = append(parts, "No valid credentials came with this call")
	default:
		parts = append(parts, "This call is not permitted")
	}
	if d.code() != CodeUnauthorized && d.code() != CodeUnauthenticated {
		return parts[0]
	}
	switch {
	case d.ApprovalURL != "":
		parts = append(parts, "a person can approve it at "+d.ApprovalURL+", so do not repeat it before that")
	case d.code() == CodeUnauthenticated:
		parts = append(parts, "repeating it with the same credentials, or none, is of no use")
	case d.Retryable:
		parts = append(parts, "it may be repeated once later")
	case d.Fix != "":
		parts = append(parts, "do not repeat the call as it is")
	default:
		parts = append(parts, "the decision is final, so do not repeat the call or look for another way")
	}
	if d.Fix != "" {
		parts = append(parts, "what can be done: "+strings.TrimSuffix(d.Fix, "."))
	}
	return strings.Join(parts, "; ") + "."
}

// missing returns the missing operations in order, each once.
func (d Denial) missing() []string {
	return slices.Compact(slices.Sorted(slices.Values(d.Missing)))
}

// JSONRPC returns the response to the call with that id, which is raw JSON;
// nil is null, for a call whose id could not be read.
func (d Denial) JSONRPC(id []byte) []byte {
	if len(id) == 0 {
		id = []byte("null")
	}
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = append(b, `,"error":{"code":`...)
	b = strconv.AppendInt(b, int64(d.code()), 10)
	b = append(append(b, `,"message":`...), quote(d.Text())...)
	b = append(append(b, `,"data":[`...), d.info(d.metadata(JSONRPC))...)
	return append(b, "]}}"...)
}

// TaskNotFound is the answer for a task that does not exist and for one that belongs to
// someone else. It equals that of a2a-go 2.4 byte for byte, so that no caller can tell
// the two apart (ATK-18).
func TaskNotFound(method Method, at time.Time) Denial {
	d := Denial{Code: CodeTaskNotFound, Reason: ReasonNoTask, Message: "task not found", At: at}
	switch method {
	case GetTask:
		d.Message = "failed to get task: task not found"
	case CancelTask:
		d.Message = "failed to cancel: cancelation failed: canceler setup failed: failed to load a task: task not found"
	case SendMessage, SendStreamingMessage:
		d.Message = "executor setup failed: failed to load exec ctx: task loading failed: task not found"
	case SubscribeToTask:
		d.Message = "task not found: no active execution"
	case GetPushConfig:
		d.Message = "failed to get push config: task not found"
	default:
	}
	return d
}
