package people

import "time"

// Session is a login in a browser that counts until it ends. The tokens that people use in
// a shell are none: their identity provider keeps those.
type Session struct {
	ID        string // says which it is, and logs no reader in
	Principal string
	Login     Login
	Began     time.Time
	Ends      time.Time
}
