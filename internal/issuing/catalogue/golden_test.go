package catalogue

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files of this package")

// section is one "-- name --" part of a golden file. Parts called ">" are what
// is wanted of the part before.
type section struct{ name, text string }

func sections(t testing.TB, path string) (comment string, parts []section) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	comment, rest, _ := strings.Cut(string(data), "\n-- ")
	for part := range strings.SplitSeq(rest, "\n-- ") {
		name, text, _ := strings.Cut(strings.TrimSuffix(part, "\n")+"\n", " --\n")
		parts = append(parts, section{name, text})
	}
	return comment, parts
}

// golden runs f on every part of a file and compares the result with the part
// behind it.
func golden(t *testing.T, path string, f func(t *testing.T, name string, data []byte) string) {
	t.Helper()
	comment, parts := sections(t, path)
	var out strings.Builder
	out.WriteString(comment + "\n")
	for i, p := range parts {
		if p.name == ">" {
			continue
		}
		var want, got string
		if i+1 < len(parts) && parts[i+1].name == ">" {
			want = parts[i+1].text
		}
		t.Run(p.name, func(t *testing.T) {
			got = f(t, p.name, []byte(p.text))
			if diff := cmp.Diff(want, got); diff != "" && !*update {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
		out.WriteString("-- " + p.name + " --\n" + p.text + "-- > --\n" + got)
	}
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// seeds adds the inputs of a golden file to a corpus.
func seeds(f *testing.F, path string) {
	f.Helper()
	_, parts := sections(f, path)
	for _, p := range parts {
		if p.name != ">" {
			f.Add([]byte(p.text))
		}
	}
}
