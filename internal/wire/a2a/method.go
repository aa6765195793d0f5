package a2a

import "strings"

// ExtensionURI names the capability negotiation extension (SEP-24; ADR 5).
const ExtensionURI = "https://github.com/powerbox-project/powerbox/extensions/capability-negotiation/v1"

// The protocol versions that this package reads.
const (
	Version1  = "1.0"
	Version03 = "0.3"
)

// Method is the method of a call, whichever name its protocol version has for it. The
// zero Method is Unknown.
type Method uint8

// The methods. Those from CapabilitiesRequest on belong to the capability
// negotiation extension.
const (
	Unknown Method = iota
	SendMessage
	SendStreamingMessage
	GetTask
	ListTasks
	CancelTask
	SubscribeToTask
	CreatePushConfig
	GetPushConfig
	ListPushConfigs
	DeletePushConfig
	GetExtendedCard
	CapabilitiesRequest
	CapabilitiesAttenuate
	CapabilitiesRevoke
	CapabilitiesList
	SkillInvoke
	TaskSend
)

// methodNames has, for every method, its names on the wire: 1.0, 0.3, or one
// name for both.
var methodNames = [...]struct{ v1, v03 string }{
	SendMessage:           {"SendMessage", "message/send"},
	SendStreamingMessage:  {"SendStreamingMessage", "message/stream"},
	GetTask:               {"GetTask", "tasks/get"},
	ListTasks:             {"ListTasks", "tasks/list"},
	CancelTask:            {"CancelTask", "tasks/cancel"},
	SubscribeToTask:       {"SubscribeToTask", "tasks/resubscribe"},
	CreatePushConfig:      {"CreateTaskPushNotificationConfig", "tasks/pushNotificationConfig/set"},
	GetPushConfig:         {"GetTaskPushNotificationConfig", "tasks/pushNotificationConfig/get"},
	ListPushConfigs:       {"ListTaskPushNotificationConfigs", "tasks/pushNotificationConfig/list"},
	DeletePushConfig:      {"DeleteTaskPushNotificationConfig", "tasks/pushNotificationConfig/delete"},
	GetExtendedCard:       {"GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"},
	CapabilitiesRequest:   {"a2a/capabilities/request", ""},
	CapabilitiesAttenuate: {"a2a/capabilities/attenuate", ""},
	CapabilitiesRevoke:    {"a2a/capabilities/revoke", ""},
	CapabilitiesList:      {"a2a/capabilities/list", ""},
	SkillInvoke:           {"a2a/skill/invoke", ""},
	TaskSend:              {"a2a/task/send", ""},
}

// ParseMethod returns the method of a JSON-RPC method name and whether it is
// the name that version 0.3 has for it. Names are compared exactly.
func ParseMethod(wire string) (m Method, v03 bool) {
	for i, names := range methodNames {
		switch {
		case wire == "":
		case names.v1 == wire:
			return Method(i), false
		case names.v03 == wire:
			return Method(i), true
		}
	}
	return Unknown, false
}

// String returns the method's name in version 1.0, or "Unknown".
func (m Method) String() string {
	if m == Unknown || int(m) >= len(methodNames) {
		return "Unknown"
	}
	return methodNames[m].v1
}

// IsExtension reports whether the method belongs to capability negotiation
// and is answered by the gateway, not by the agent behind it.
func (m Method) IsExtension() bool { return m >= CapabilitiesRequest && m <= TaskSend }

// IsMessage reports whether the method carries a message.
func (m Method) IsMessage() bool {
	return m == SendMessage || m == SendStreamingMessage || m == TaskSend
}

// Streams reports whether the answer to the method is a stream.
func (m Method) Streams() bool { return m == SendStreamingMessage || m == SubscribeToTask }

// isAboutPush reports whether a call of that method is about one push configuration, or
// those of a task.
func (m Method) isAboutPush() bool { return m >= CreatePushConfig && m <= DeletePushConfig }

// NamesTask reports whether a call of that method is about one existing task
// and has to name it.
func (m Method) NamesTask() bool {
	switch m {
	case GetTask, CancelTask, SubscribeToTask, CreatePushConfig, GetPushConfig, ListPushConfigs, DeletePushConfig:
		return true
	default:
		return false
	}
}

// Header has the parts of the transport beside the body (A2A 1.0, section 3.2.6).
type Header struct {
	Version    string   // value of A2A-Version, from the header or the query; "" when absent
	Extensions []string // every value of A2A-Extensions and X-A2A-Extensions, commas not yet split
}

// version returns the protocol version that the caller speaks. Absent is 0.3
// (A2A 1.0, section 3.6.2); a patch number is of no consequence.
func (h Header) version() (string, bool) {
	if h.Version == "" {
		return Version03, true
	}
	for _, known := range []string{Version1, Version03} {
		if h.Version == known {
			return known, true
		}
		if patch, ok := strings.CutPrefix(h.Version, known+"."); ok && patch != "" && strings.Trim(patch, "0123456789") == "" {
			return known, true
		}
	}
	return "", false
}

// extensions returns the single URIs.
func (h Header) extensions() []string {
	var uris []string
	for _, line := range h.Extensions {
		for uri := range strings.SplitSeq(line, ",") {
			if uri = strings.Trim(uri, " \t"); uri != "" {
				uris = append(uris, uri)
			}
			if len(uris) > maxExtensions {
				return uris // one more than is taken: parse refuses the call
			}
		}
	}
	return uris
}
