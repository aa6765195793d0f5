package a2a

import "strings"

// Tasks, contexts and sessions are remembered in one table. Each kind has keys of its own,
// so that an id of one is never taken for an id of another (ATK-18).
const (
	taskKey    = "task:"
	contextKey = "context:"
	sessionKey = "mcp-session:"
)

// TaskKey is the key of a task: its id, unless that could be taken for another key.
func TaskKey(id string) string {
	for _, prefix := range []string{taskKey, contextKey, sessionKey} {
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
