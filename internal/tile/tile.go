// Package tile has the tiles of the evidence log (C2SP tlog-tiles): their paths, and a
// folder of files that any client of such logs reads.
package tile

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// Height is the height of a C2SP tile: 256 hashes.
const Height = 8

// ParsePath reads the path of a tile below a log's prefix (C2SP tlog-tiles):
// tile/LEVEL/INDEX or tile/entries/INDEX, with .p/WIDTH for a partial tile. The
// tile of entries has level -1.
func ParsePath(path string) (tlog.Tile, error) {
	level, rest, _ := strings.Cut(strings.TrimPrefix(path, "tile/"), "/")
	switch level {
	case "entries":
		level = "data" // as tlog calls it
	case "data":
		level = "-"
	}
	tile, err := tlog.ParseTilePath(fmt.Sprintf("tile/%d/%s/%s", Height, level, rest))
	if err != nil || tile.L > 63 || !strings.HasPrefix(path, "tile/") {
		return tlog.Tile{}, fmt.Errorf("%q is not the path of a tile; want tile/LEVEL/INDEX, such as tile/0/x001/234.p/56", path)
	}
	return tile, nil
}

// Path is the path of a tile below a log's prefix.
func Path(t tlog.Tile) string {
	path := strings.TrimPrefix(t.Path(), fmt.Sprintf("tile/%d/", Height))
	if t.L < 0 {
		path = "entries" + strings.TrimPrefix(path, "data")
	}
	return "tile/" + path
}

// Within reports whether a tree of this size has the tile, as wide as it is.
func Within(tile tlog.Tile, size int64) bool {
	level := max(tile.L, 0) * Height
	if level > 56 {
		return false
	}
	hashes := size >> level
	full := hashes >> Height
	return tile.N < full || tile.N == full && int64(tile.W) <= hashes&(1<<Height-1)
}

// Entries is the content of a tile of entries: every leaf behind its length.
func Entries(leaves [][]byte) []byte {
	var out []byte
	for _, leaf := range leaves {
		// A leaf has 149 bytes.
		out = append(out, byte(len(leaf)>>8), byte(len(leaf)))
		out = append(out, leaf...)
	}
	return slices.Clip(out)
}
