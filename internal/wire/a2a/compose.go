package a2a

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Compose returns the request that carries a2a/skill/invoke to an agent that
// does not know that method: a message with one data part {skill, arguments}.
// The arguments are those bytes that were decided on. Version is that of the
// agent behind, id is raw JSON, messageID is unique and the caller's to make.
func Compose(p InvokeParams, id []byte, version, messageID string) []byte {
	return composed(SendMessage, p, id, version, messageID)
}

func composed(method Method, p InvokeParams, id []byte, version, messageID string) []byte {
	var call, part, message rawObject
	call.set("skill", quote(p.Skill))
	call.set("arguments", p.Arguments.AppendSource(nil))
	if version == Version03 {
		part.set("kind", quote("data"))
		message.set("kind", quote("message"))
	}
	part.set("data", call.bytes())
	message.set("messageId", quote(messageID))
	message.set("role", quote(user(version)))
	message.set("parts", writeArray([][]byte{part.bytes()}))
	return envelope(method, id, version, p.Tenant, message.bytes())
}

// ComposeStreaming is [Compose] for an answer that is a stream.
func ComposeStreaming(p InvokeParams, id []byte, version, messageID string) []byte {
	return composed(SendStreamingMessage, p, id, version, messageID)
}

func methodIn(m Method, version string) string {
	if version == Version03 {
		return methodNames[m].v03
	}
	return methodNames[m].v1
}

// The names of the role user.
const (
	userV1  = "ROLE_USER"
	userV03 = "user"
)

func user(version string) string {
	if version == Version03 {
		return userV03
	}
	return userV1
}

// envelope returns a request that sends a message to the agent behind.
func envelope(method Method, id []byte, version, tenant string, message []byte) []byte {
	var params, request rawObject
	if tenant != "" {
		params.set("tenant", quote(tenant))
	}
	params.set("message", message)
	request.set("jsonrpc", quote("2.0"))
	request.set("id", id)
	request.set("method", quote(methodIn(method, version)))
	request.set("params", params.bytes())
	return request.bytes()
}

// ComposeTask returns the request that carries a2a/task/send to an agent that does not
// know that method. The message is written again as any is, with the members that the
// version demands. These are the mark of a text or data part, the name of the role, and
// messageID where the message has no id of its own.
func ComposeTask(p TaskSendParams, id []byte, version, messageID string) ([]byte, error) {
	w, wrong := knownMessage.Write("params.message", p.Message)
	if wrong != nil {
		return nil, wrong
	}
	message, err := readObject(w.Value.AppendSource(nil))
	if err != nil {
		return nil, fmt.Errorf("params.message: %w", err)
	}
	parts, err := readArray(message.get("parts"))
	if err != nil {
		return nil, fmt.Errorf("params.message.parts: %w", err)
	}
	for i, raw := range parts {
		part, err := readObject(raw)
		if err != nil {
			return nil, fmt.Errorf("params.message.parts[%d]: %w", i, err)
		}
		parts[i] = convertPart(raw, part, version)
	}
	message.set("parts", writeArray(parts))
	if role := message.text("role"); role == "" || role == userV1 || role == userV03 {
		message.set("role", quote(user(version)))
	}
	if message.text("messageId") == "" {
		message.set("messageId", quote(messageID))
	}
	message.drop("kind")
	if version == Version03 {
		message.set("kind", quote("message"))
	}
	return envelope(SendMessage, id, version, p.Tenant, message.bytes()), nil
}

// convertPart gives a text or data part the form of the version; any other
// part, and one that has the form already, stays as it is.
func convertPart(raw []byte, part rawObject, version string) []byte {
	name := ""
	for _, candidate := range []string{"text", "data"} {
		if part.get(candidate) != nil {
			name = candidate
		}
	}
	says := part.text("kind")
	if says == "" {
		says = part.text("type")
	}
	if name == "" || says != "" && says != name {
		return raw
	}
	if version == Version03 && part.text("kind") == name && part.get("type") == nil ||
		version != Version03 && says == "" {
		return raw
	}
	part.drop("type")
	part.drop("kind")
	if version == Version03 {
		part.set("kind", quote(name))
	}
	return part.bytes()
}

// Result returns the response to the call with that id, which is raw JSON.
// The result is one of the result types of this package, or a json.RawMessage.
func Result(id []byte, result any) ([]byte, error) {
	raw, err := encode(result)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	var o rawObject
	o.set("jsonrpc", quote("2.0"))
	o.set("id", id)
	o.set("result", raw)
	return o.bytes(), nil
}

// encode is json.Marshal without its escapes for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), err
}
