package telemetry

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// The names of OpenTelemetry's conventions for generative AI and MCP, which are in
// development: open-telemetry/semantic-conventions-genai at 0393513c, of 2026, over the
// general conventions 1.41.1. Go's semconv package does not have them.
const (
	operationDuration = "mcp.server.operation.duration"

	genAIOperation = "gen_ai.operation.name"
	genAIAgent     = "gen_ai.agent.id"
	genAITool      = "gen_ai.tool.name"
	mcpMethod      = "mcp.method.name"
	errorType      = "error.type"

	executeTool = "execute_tool"
	invokeAgent = "invoke_agent"
)

const (
	mcpBinding = "MCP"
	toolsCall  = "tools/call"
)

// spanName is the name of the span of a call, from texts that code and configuration bound.
func spanName(s Seen) string {
	switch {
	case s.Binding == mcpBinding && s.Tool != "":
		return s.Method + " " + s.Tool
	case s.Binding == mcpBinding:
		return s.Method
	case invokes(s):
		return invokeAgent + " " + s.Agent
	}
	return "powerbox " + s.Method
}

// invokes reports whether a call of A2A has the agent do something.
func invokes(s Seen) bool {
	switch s.Method {
	case "SendMessage", "SendStreamingMessage", "a2a/skill/invoke":
		return true
	}
	return false
}

// mcpAttributes are those that spans and the metric of MCP share. Nothing of them is a
// caller's word: the tool is one that configuration names, the method one of the protocol.
func mcpAttributes(s Seen) []attribute.KeyValue {
	all := []attribute.KeyValue{attribute.String(mcpMethod, s.Method), attribute.String("network.protocol.name", "http"), attribute.String("network.transport", "tcp")}
	if s.Method == toolsCall {
		all = append(all, attribute.String(genAIOperation, executeTool))
	}
	if s.Tool != "" {
		all = append(all, attribute.String(genAITool, s.Tool))
	}
	return append(all, failure(s)...)
}

// failure names the class of a failure: the code of the denial or of the error.
func failure(s Seen) []attribute.KeyValue {
	if s.Decision == "allow" || s.Decision == "answered" || s.Decision == "abstain" || len(s.Reasons) == 0 {
		return nil
	}
	return []attribute.KeyValue{attribute.String(errorType, s.Reasons[0])}
}

// conventional are the attributes of a span that the conventions name.
func conventional(s Seen) []attribute.KeyValue {
	if s.Binding == mcpBinding {
		return mcpAttributes(s)
	}
	all := []attribute.KeyValue{attribute.String(genAIAgent, s.Agent)}
	if invokes(s) {
		all = append(all, attribute.String(genAIOperation, invokeAgent))
	}
	return append(all, failure(s)...)
}

// denials adds an event to a span for each reason of a denial.
func denials(span trace.Span, s Seen) {
	for _, code := range s.Reasons {
		span.AddEvent("powerbox.denial", trace.WithAttributes(attribute.String("powerbox.reason", code), attribute.String("powerbox.mode", s.Mode)))
	}
}
