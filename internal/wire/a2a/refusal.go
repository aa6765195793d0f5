package a2a

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// refusals are the errors by which an agent says that it does not do something at all, by the
// reason of google.rpc.ErrorInfo.
var refusals = map[string]int64{
	"METHOD_NOT_FOUND": CodeMethodNotFound, "UNSUPPORTED_OPERATION": CodeUnsupported,
	"PUSH_NOTIFICATION_NOT_SUPPORTED": CodePushNotSupported, "EXTENDED_AGENT_CARD_NOT_CONFIGURED": CodeNoExtendedCard,
}

// HTTPRefusal returns the code that JSON-RPC has for a refusal in HTTP+JSON, and false where the
// answer is none. An answer without a reason says no more than that the method is not there, and
// 404 to a call that names a task does not say that.
func HTTPRefusal(status int, body []byte, task bool) (code int64, refused bool) {
	if status < http.StatusBadRequest {
		return 0, false
	}
	var said struct {
		Code  int64 `json:"code"` // of 0.3, where there is no error around it
		Error struct {
			Details []struct {
				Reason string `json:"reason"`
			} `json:"details"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &said) == nil {
		for _, d := range said.Error.Details {
			if d.Reason != "" {
				code, refused = refusals[d.Reason]
				return code, refused
			}
		}
		if said.Code < 0 {
			return said.Code, true
		}
	}
	if status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented || status == http.StatusNotFound && !task {
		return CodeMethodNotFound, true
	}
	return 0, false
}

// GRPCRefusal is HTTPRefusal for the status of gRPC and its details, a google.rpc.Status.
func GRPCRefusal(status string, details []byte) (code int64, refused bool) {
	for reason, code := range refusals {
		if bytes.Contains(details, []byte(reason)) {
			return code, true
		}
	}
	if status == "12" { // UNIMPLEMENTED
		return CodeMethodNotFound, true
	}
	return 0, false
}
