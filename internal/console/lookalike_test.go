package console

import (
	"testing"

	"github.com/powerbox-project/powerbox/internal/provider"
)

// TestAAPA8_Lookalikes has agents call themselves what they are not.
func TestAAPA8_Lookalikes(t *testing.T) {
	for name, misleads := range map[string]bool{
		"Budget helper": false, "Помощник по счетам": false, "Βοηθός": false, "B\u0430nk": true, "Pa\u03c5pal helper": true, "First Bank": true, "first-BANK support": true,
		"Riverbank walks": false, "F i r s t B a n k": true,
	} {
		q := provider.Question{Agent: provider.Agent{Name: name}}
		if got := lookalike(q, "First Bank") != ""; got != misleads {
			t.Errorf("AAP-A8 %q misleads: %v; want %v", name, got, misleads)
		}
		if got := lookalike(provider.Question{Host: provider.Host{Name: name}}, "First Bank") != ""; got != misleads {
			t.Errorf("AAP-A8 host %q misleads: %v; want %v", name, got, misleads)
		}
	}
}
