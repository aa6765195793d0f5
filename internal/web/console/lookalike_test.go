package console

import (
	"testing"

	"github.com/powerbox-project/powerbox/internal/issuing/provider"
	"github.com/powerbox-project/powerbox/internal/web/lang"
)

// TestAAPA8_Lookalikes has agents call themselves what they are not.
func TestAAPA8_Lookalikes(t *testing.T) {
	for name, misleads := range map[string]bool{
		"Budget helper": false, "Помощник по счетам": false, "Βοηθός": false, "B\u0430nk": true, "Pa\u03c5pal helper": true, "First Bank": true, "first-BANK support": true,
		"Riverbank walks": false, "F i r s t B a n k": true,
		"\uff26\uff49\uff52\uff53\uff54 \uff22\uff41\uff4e\uff4b": true, "\U0001d405irst \U0001d401ank": true, "F\u00edrst B\u00e1nk": true, "f\u0131rst bank": true,
	} {
		q := provider.Question{Agent: provider.Agent{Name: name}}
		if got := lookalike(lang.English, q, "First Bank") != ""; got != misleads {
			t.Errorf("AAP-A8 %q misleads: %v; want %v", name, got, misleads)
		}
		if got := lookalike(lang.English, provider.Question{Host: provider.Host{Name: name}}, "First Bank") != ""; got != misleads {
			t.Errorf("AAP-A8 host %q misleads: %v; want %v", name, got, misleads)
		}
	}
}

// TestAAPA8_DrawnLike has agents call themselves by the letters of one other script that are
// drawn as those of the service's name.
func TestAAPA8_DrawnLike(t *testing.T) {
	for name, misleads := range map[string]bool{"\u0430\u0441\u043c\u0435": true, "\u0410\u0421\u041c\u0415": true, "\u0430\u0441\u043c\u0430": false, "\u0410\u043a\u043c\u0435": false} {
		if got := lookalike(lang.English, provider.Question{Agent: provider.Agent{Name: name}}, "Acme") != ""; got != misleads {
			t.Errorf("AAP-A8 %q misleads: %v; want %v", name, got, misleads)
		}
	}
	if got := lookalike(lang.English, provider.Question{Agent: provider.Agent{Name: "\u0391\u03bdi\u03bf"}}, "Avio"); got == "" {
		t.Error("AAP-A8 mixed Greek and Latin is not marked")
	}
	if got := lookalike(lang.English, provider.Question{Agent: provider.Agent{Name: "\u041f\u043e\u0447\u0442\u0430 \u0411\u0430\u043d\u043a"}}, "\u041f\u043e\u0447\u0442\u0430"); got == "" {
		t.Error("AAP-A8 the name of a service in Cyrillic is not marked")
	}
}
