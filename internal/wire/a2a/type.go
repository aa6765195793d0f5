package a2a

import (
	"fmt"
	"mime"
	"strings"
)

// CheckType refuses a body that is said to be something else than JSON, or that agents
// would read as nothing or as something else: values are those of Content-Type. A request
// of gRPC came by its type.
func CheckType(b Binding, values []string, empty bool) *Error {
	if b == GRPC || (b == HTTPJSON || b == MCP) && empty {
		return nil
	}
	if len(values) != 1 {
		return untyped("the request has %d Content-Type headers; want application/json", len(values))
	}
	if values[0] == "application/json" {
		return nil // as nearly all say it
	}
	kind, params, err := mime.ParseMediaType(values[0])
	charset, named := params["charset"]
	if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") || named && !strings.EqualFold(charset, "utf-8") {
		return untyped("Content-Type %.128q is not accepted; want application/json, in UTF-8", values[0])
	}
	return nil
}

func untyped(format string, args ...any) *Error {
	return &Error{codeContentType, ReasonEnvelope, fmt.Sprintf(format, args...)}
}
