package tile

import (
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

func TestEXT35_TilesHaveThePathsOfTheText(t *testing.T) {
	const size = 70000 // the example of C2SP tlog-tiles
	for path, want := range map[string]struct {
		tile   tlog.Tile
		within bool
	}{
		"tile/0/000":              {tlog.Tile{H: 8, L: 0, N: 0, W: 256}, true},
		"tile/0/272":              {tlog.Tile{H: 8, L: 0, N: 272, W: 256}, true},
		"tile/0/273.p/112":        {tlog.Tile{H: 8, L: 0, N: 273, W: 112}, true},
		"tile/0/273.p/113":        {tlog.Tile{H: 8, L: 0, N: 273, W: 113}, false},
		"tile/0/273":              {tlog.Tile{H: 8, L: 0, N: 273, W: 256}, false},
		"tile/0/x001/x234/067":    {tlog.Tile{H: 8, L: 0, N: 1234067, W: 256}, false},
		"tile/1/000":              {tlog.Tile{H: 8, L: 1, N: 0, W: 256}, true},
		"tile/1/001.p/17":         {tlog.Tile{H: 8, L: 1, N: 1, W: 17}, true},
		"tile/2/000.p/1":          {tlog.Tile{H: 8, L: 2, N: 0, W: 1}, true},
		"tile/2/000.p/2":          {tlog.Tile{H: 8, L: 2, N: 0, W: 2}, false},
		"tile/3/000.p/1":          {tlog.Tile{H: 8, L: 3, N: 0, W: 1}, false},
		"tile/63/000.p/1":         {tlog.Tile{H: 8, L: 63, N: 0, W: 1}, false},
		"tile/entries/273.p/112":  {tlog.Tile{H: 8, L: -1, N: 273, W: 112}, true},
		"tile/entries/273.p/113":  {tlog.Tile{H: 8, L: -1, N: 273, W: 113}, false},
		"tile/0/x999/x999/999":    {tlog.Tile{H: 8, L: 0, N: 999999999, W: 256}, false},
		"tile/entries/x000/000":   {},
		"tile/data/000":           {},
		"tile/64/000":             {},
		"tile/00/000":             {},
		"tile/-1/000":             {},
		"tile/0/000.p/256":        {},
		"tile/0/000.p/0":          {},
		"tile/0":                  {},
		"0/000":                   {},
		"":                        {},
		"tile/8/0/000":            {},
		"tile/0/000/../000":       {},
		"tile/0/000.p/01":         {},
		"tile/0/x1/000":           {},
		"tile/0/x9999999999/9999": {},
	} {
		tile, err := ParsePath(path)
		if (err == nil) != (want.tile.H > 0) || tile != want.tile || err == nil && Within(tile, size) != want.within {
			t.Errorf("%s: %+v %v, within %v", path, tile, err, Within(tile, size))
		}
		if err == nil && Path(tile) != path {
			t.Errorf("the path of %s is %s", path, Path(tile))
		}
	}
	if bundle := Entries([][]byte{make([]byte, 258), {7}}); len(bundle) != 263 || bundle[0] != 1 || bundle[1] != 2 || string(bundle[260:]) != "\x00\x01\x07" {
		t.Errorf("%x", bundle)
	}
}
