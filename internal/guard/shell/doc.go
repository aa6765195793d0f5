// Package shell reads a command line and says what it would do, before any shell runs it.
//
// The laws:
//
//   - The reader never guesses. A part whose value only the shell knows, such as $X or
//     $(...), makes the command unclear, and an unclear command is an error.
//   - A command of the table (table.go) has an allowlist of flags, because an unknown flag
//     may run another program. Its arguments become [Act]s on paths and hosts.
//   - A command that the table lacks has no acts. It can only be granted word by word.
//   - Redirections, substitutions and every command of a pipeline or list are read.
//   - The package opens nothing: it sees the file system through [Place].
//
// The reader takes bash. Where zsh or a POSIX shell reads the same text in another way, the
// text is unclear.
package shell
