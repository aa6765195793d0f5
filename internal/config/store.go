package config

import "strings"

// Store is where state and evidence are kept.
type Store struct {
	Postgres     Secret `key:"postgres" doc:"URL of a PostgreSQL database (15 or newer) that any number of serve processes share (docs/how-to/postgresql.md): postgres://user:password@host/name?sslmode=verify-full. Several hosts with target_session_attrs=read-write find the primary. Absent, and without postgres_file: one SQLite file in issuer.directory, for one process."`
	PostgresFile Path   `key:"postgres_file" doc:"File with that URL; white space around it is ignored."`
	Durability   string `key:"durability" default:"strict" enum:"strict,single" doc:"Durability on PostgreSQL. strict: nothing is acknowledged before a second machine stored it. The start, readiness and every commit refuse a database without synchronous replication. single: the disk of one machine is enough. SQLite is always single."`
	Connections  int    `key:"connections" default:"16" min:"3" max:"1000" doc:"Most connections of one process to PostgreSQL."`
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
