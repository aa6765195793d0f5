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
