package config

import "strings"

// Store is where state and evidence are kept.
type Store struct {
	Postgres     Secret `key:"postgres" doc:"URL of a PostgreSQL database (15 or newer) that any number of serve processes share (docs/how-to/postgresql.md); postgres://user:password@host/name?sslmode=verify-full. Several hosts with target_session_attrs=read-write find the primary. Absent, and without postgres_file: one file of SQLite in issuer.directory, for one process."`
	PostgresFile Path   `key:"postgres_file" doc:"File with that URL; white space around it is left out."`
	Durability   string `key:"durability" default:"strict" enum:"strict,single" doc:"Of PostgreSQL. strict: nothing is acknowledged that only one machine has; a database without synchronous replication is refused at the start, by readiness and at every commit. single: one machine, whose disk is all that there is. SQLite is always one machine."`
	Connections  int    `key:"connections" default:"16" min:"3" max:"1000" doc:"How many connections one process has to PostgreSQL at the most."`
}

// Shared reports whether several processes share the store.
func (s Store) Shared() bool { return s.Postgres.Reveal() != "" || s.PostgresFile != "" }

// URL is where the database is, which read reads where a file has it.
func (s Store) URL(read func(string) ([]byte, error)) (string, error) {
	if s.PostgresFile == "" {
		return s.Postgres.Reveal(), nil
	}
	data, err := read(string(s.PostgresFile))
	return strings.TrimSpace(string(data)), err
}

// checkStore wants one place.
func (k checker) checkStore() {
	if k.Store.Postgres.Reveal() != "" && k.Store.PostgresFile != "" {
		k.place("store.postgres_file", "store.postgres is set, too; want one of them")
	}
}
