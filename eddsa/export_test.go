package eddsa

// What the tests look at.
const (
	TableEvery = tableEvery
	MaxTables  = maxTables
)

// VerifyByTable verifies by its own table; point is false where there is none.
func VerifyByTable(public [PublicKeySize]byte, message, signature []byte) (ok, point bool) {
	t := newTable(public)
	return t != nil && t.verify(message, signature), t != nil
}

// Tabulated reports whether k has a table.
func (k *Key) Tabulated() bool { return k.table.Load() != nil }

// Tables is how many places are taken.
func Tables() int { return int(tables.Load()) }
