package postgres

import "testing"

// Arguments are numbered in their order.
func TestStatementsAreSpelledForPostgreSQL(t *testing.T) {
	for statement, want := range map[string]string{
		"SELECT 1": "SELECT 1",
		"UPDATE gateway_token SET used = ? WHERE hash = ? AND expires > ?":  "UPDATE gateway_token SET used = $1 WHERE hash = $2 AND expires > $3",
		"SELECT bytes FROM record WHERE place >= ? AND instr(bytes, ?) > 0": "SELECT bytes FROM record WHERE place >= $1 AND position($2::bytea IN bytes) > 0",
		"SELECT COALESCE(MIN(place), CAST(? AS BIGINT)) FROM record":        "SELECT COALESCE(MIN(place), CAST($1 AS BIGINT)) FROM record",
	} {
		if got := spelling.Of(statement); got != want {
			t.Errorf("%s\nis spelled\n%s\nwant\n%s", statement, got, want)
		}
	}
}
