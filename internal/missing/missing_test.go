package missing_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/missing"
)

type answers struct{ Mode func() string }

type config struct {
	answers
	Name  string
	Store io.Reader
	Keys  []string
	Began time.Time
	Spare *int
}

// TestFields: every kind of field is named where it is empty, and those alone.
func TestFields(t *testing.T) {
	names := []string{"Mode", "Name", "Store", "Keys", "Began"}
	full := config{answers{func() string { return "" }}, "n", strings.NewReader(""), []string{"k"}, time.Unix(1, 0), nil}
	for _, c := range []struct {
		name   string
		change func(*config)
		want   string
	}{
		{"all are there", func(*config) {}, ""},
		{"a function of an embedded struct", func(c *config) { c.Mode = nil }, "Mode"},
		{"a text", func(c *config) { c.Name = "" }, "Name"},
		{"an interface", func(c *config) { c.Store = nil }, "Store"},
		{"a list without elements", func(c *config) { c.Keys = []string{} }, "Keys"},
		{"the zero time of another place", func(c *config) { c.Began = time.Time{}.Local() }, "Began"},
		{"everything", func(c *config) { *c = config{} }, "Mode, Name, Store, Keys, Began"},
	} {
		t.Run(c.name, func(t *testing.T) {
			has := full
			c.change(&has)
			want := ""
			if c.want != "" {
				want = "town: the configuration lacks " + c.want
			}
			for _, given := range []any{has, &has} {
				got := ""
				if err := missing.Fields("town", given, names...); err != nil {
					got = err.Error()
				}
				if got != want {
					t.Errorf("%T: %q; want %q", given, got, want)
				}
			}
		})
	}
}

// TestFieldsOfNoSuchName: a misspelt name would leave a field unchecked.
func TestFieldsOfNoSuchName(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a name that is no field is taken")
		}
	}()
	_ = missing.Fields("town", config{}, "Nmae")
}
