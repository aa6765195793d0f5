// Package guard decides what a coding agent may do on its user's machine: every tool call of
// a session becomes attempts with arguments, and each is decided by [powerbox.Decide] under
// the session's lease.
//
// The laws:
//
//   - A tool, command, flag or path that cannot be judged before it runs is denied.
//   - A sub-agent's lease is derived from its parent's by the token library, so it cannot be wider.
//   - A person's answer lifts a question. It never lifts what the lease does not have.
//   - The files by which a session is guarded, and those that name programs to run, are
//     written by no session (protect.go).
//
// The functions here are pure: they see the file system through [shell.Place].
package guard
