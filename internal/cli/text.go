package cli

import (
	"fmt"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// ArgumentsText is a shape in words: " where NAME CONSTRAINT, ...".
func ArgumentsText(s powerbox.Shape) string {
	if len(s.Fields()) == 0 {
		return " with any arguments"
	}
	texts := make([]string, len(s.Fields()))
	for i, f := range s.Fields() {
		texts[i] = fmt.Sprintf("%s %s", f.Name, f.Constraint.JSON())
	}
	return " where " + strings.Join(texts, ", ")
}

// Empty says on standard error why a list has no rows. Standard output has its heading alone, so
// that programs read an empty list as a full one.
func (p *Program) Empty(rows int, why string) {
	if rows == 0 {
		Printf(p.Stderr, "powerbox: %s\n", why)
	}
}
