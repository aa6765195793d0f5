package sqlite

import "testing"

// Words are replaced, and never parts of words or of texts.
func TestStatementsAreSpelledForSQLite(t *testing.T) {
	for statement, want := range map[string]string{
		"SELECT body FROM question WHERE state = ? ORDER BY made":                                            "SELECT body FROM question WHERE state = ? ORDER BY rowid",
		"SELECT by_whom FROM revocation WHERE kind = 'revoke'":                                               "SELECT by FROM revocation WHERE kind = 'revoke'",
		"INSERT INTO host (for_user) VALUES (?) ON CONFLICT (id) DO UPDATE SET for_user = excluded.for_user": "INSERT INTO host (user) VALUES (?) ON CONFLICT (id) DO UPDATE SET user = excluded.user",
		"UPDATE agent_key SET newest = false WHERE newest = true":                                            "UPDATE agent_key SET newest = 0 WHERE newest = 1",
		"DELETE FROM held_call WHERE state NOT IN ('approved', 'being_made')":                                "DELETE FROM held_call WHERE state NOT IN ('approved', 'being_made')",
	} {
		if got := spelling.Of(statement); got != want {
			t.Errorf("%s\nis spelled\n%s\nwant\n%s", statement, got, want)
		}
	}
}
