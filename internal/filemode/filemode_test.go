package filemode

import (
	"strings"
	"testing"
)

func TestKeysOfAServerNeedModes(t *testing.T) {
	if err := keeps("windows", "powerbox serve"); err == nil || !strings.HasPrefix(err.Error(), "powerbox serve does not run on Windows") {
		t.Errorf("a server on Windows: %v", err)
	}
	for _, system := range []string{"linux", "darwin"} {
		if err := keeps(system, "powerbox serve"); err != nil {
			t.Errorf("%s: %v", system, err)
		}
		if got := others(system, 0o644); got != 0o044 {
			t.Errorf("%s: mode 0644 gives others %o", system, got)
		}
		if got := others(system, 0o600); got != 0 {
			t.Errorf("%s: mode 0600 gives others %o", system, got)
		}
	}
	// Go reports 0666 for every file there that can be written.
	if got := others("windows", 0o666); got != 0 {
		t.Errorf("Windows: %o", got)
	}
}
