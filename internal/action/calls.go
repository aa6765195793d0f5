package action

import "strings"

// unknownMethod stands for every method that no table knows, so that callers cannot make
// up names that are recorded.
const unknownMethod = "Unknown"

// a2aMethods are the methods of A2A, by their names in version 1.0.
var a2aMethods = calls("a2a.", unknownMethod, "SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask",
	"CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig",
	"GetExtendedAgentCard")

// extensionMethods are those of the capability negotiation extension, whose names on the
// wire begin with a2a/.
var extensionMethods = calls("", "a2a/capabilities/request", "a2a/capabilities/attenuate", "a2a/capabilities/revoke", "a2a/capabilities/list",
	"a2a/skill/invoke", "a2a/task/send")

// mcpMethods are the methods of MCP, those of HTTP that carry none, and the response to a
// server's request.
var mcpMethods = calls("mcp.", unknownMethod, "initialize", "ping", "logging/setLevel", "notifications/initialized", "notifications/cancelled",
	"notifications/progress", "notifications/roots/list_changed", "server/discover", "subscriptions/listen", "tools/list", "tools/call",
	"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe", "prompts/list", "prompts/get",
	"completion/complete", "response", "GET", "DELETE")

func calls(before string, methods ...string) map[string]Type {
	all := make(map[string]Type, len(methods))
	for _, method := range methods {
		all[method] = listed(Call, before+strings.ReplaceAll(method, "/", "."))
	}
	return all
}

// sessions are the requests of MCP that are about the session, or list what there is. They
// need no operation of a tool.
var sessions = func() map[Type]bool {
	all := map[Type]bool{}
	for _, method := range []string{
		"initialize", "ping", "logging/setLevel", "notifications/initialized", "notifications/cancelled", "notifications/progress",
		"notifications/roots/list_changed", "server/discover", "subscriptions/listen", "tools/list", "resources/list", "resources/templates/list",
		"prompts/list", "response", "GET", "DELETE",
	} {
		all[mcpMethods[method]] = true
	}
	return all
}()

// ToMCP reports whether a record's action_type is a request of MCP.
func ToMCP(name string) bool {
	for _, t := range mcpMethods {
		if t.Is(name) {
			return true
		}
	}
	return false
}

// OfSession reports whether a record's action_type is a request of MCP that is about the
// session, or lists what there is.
func OfSession(name string) bool { return sessions[Type{name}] }

// OfA2A returns the type of a call of A2A or of the extension, by the method's name in
// version 1.0.
func OfA2A(method string) Type {
	if t, ok := extensionMethods[method]; ok {
		return t
	}
	if t, ok := a2aMethods[method]; ok {
		return t
	}
	return a2aMethods[unknownMethod]
}

// OfMCP returns the type of a request of MCP by its method, by that of HTTP where it has
// no body, or by "response" for an answer to the server.
func OfMCP(method string) Type {
	if t, ok := mcpMethods[method]; ok {
		return t
	}
	return mcpMethods[unknownMethod]
}
