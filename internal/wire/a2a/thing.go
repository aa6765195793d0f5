package a2a

import "strings"

// Tasks, contexts and sessions are remembered in one table. Each kind has its own keys,
// so that an id of one is never taken for an id of another (ATK-18).
const (
	taskKey    = "task:"
	contextKey = "context:"
	sessionKey = "mcp-session:"
	urlsKey    = "mcp-urls:"
)

// TaskKey is the key of a task: its id, unless that could be taken for another key.
func TaskKey(id string) string {
	for _, prefix := range []string{taskKey, contextKey, sessionKey, urlsKey} {
		if strings.HasPrefix(id, prefix) {
			return taskKey + id
		}
	}
	return id
}

// ContextKey is the key of a context.
func ContextKey(id string) string { return contextKey + id }

// SessionKey is the key of a session of MCP.
func SessionKey(id string) string { return sessionKey + id }

// URLsKey is the key of a session of MCP whose client sends people to URLs.
func URLsKey(id string) string { return urlsKey + id }
