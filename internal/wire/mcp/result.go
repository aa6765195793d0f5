package mcp

import (
	"github.com/powerbox-project/powerbox"
)

// Results returns what the result of a tool call says: its structured content, and without
// that each text of its content, as JSON where it is an object or an array. nil for errors.
func Results(message []byte, limits powerbox.Limits) []powerbox.Value {
	v, err := powerbox.DecodeValue(message, limits)
	if err != nil {
		return nil
	}
	result, _ := v.Get("result")
	if wrong, _ := result.Get("isError"); wrong.Equal(powerbox.Bool(true)) {
		return nil
	}
	if structured, ok := result.Get("structuredContent"); ok {
		return []powerbox.Value{structured}
	}
	content, _ := result.Get("content")
	elements, _ := content.Elements()
	var out []powerbox.Value
	for _, e := range elements {
		kind, _ := e.Get("type")
		text, ok := e.Get("text")
		if ok && kind.Equal(powerbox.String("text")) {
			out = append(out, textual(text, limits))
		}
	}
	return out
}

// textual is a text as the JSON that it holds, and otherwise as itself.
func textual(text powerbox.Value, limits powerbox.Limits) powerbox.Value {
	s, _ := text.Text()
	inner, err := powerbox.DecodeValue([]byte(s), limits)
	if err == nil && (inner.Kind() == powerbox.KindObject || inner.Kind() == powerbox.KindList) {
		return inner
	}
	return text
}
