// Package operators has the names that commands and the server use with each other, so that a
// command links no part of the server.
package operators

// Login says how powerbox login gets a session. It is public.
type Login struct {
	Issuer   string   `json:"issuer,omitempty"`
	ClientID string   `json:"client_id,omitempty"`
	Scopes   []string `json:"scopes,omitempty"`
	MaxAge   int      `json:"max_age,omitempty"` // seconds since the login, as OpenID Connect has it
}

// PathLogin has a [Login], for every caller.
const PathLogin = "/v1/login"

// NextHeader has, where a page is not the last one, the id from which the next one begins.
const NextHeader = "Powerbox-Next"

// DevUserHeader names a built-in user, in experiments.
const DevUserHeader = "Powerbox-Dev-User"
