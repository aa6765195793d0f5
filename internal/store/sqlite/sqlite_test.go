package sqlite

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/evidence"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func openStore(t *testing.T, c Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func record(id string) evidence.Record {
	return evidence.Record{
		ID: id, AgentID: "documents", ActionType: "capability.request", Intent: evidence.Intent{Operation: "documents/documents:read/retrieve"},
		Decision: evidence.Allow, Time: noon, Details: evidence.Details{Recorder: "serve"},
	}
}

func TestOneProcessOneStore(t *testing.T) {
	f := newFixture(filepath.Join(t.TempDir(), "powerbox.db"))
	openStore(t, f.config)
	if _, err := Open(t.Context(), f.config); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("second open: %v", err)
	}
}
