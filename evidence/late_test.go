package evidence_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
)

// TestLateErrorMayBeRetried: a record that is late is one that cannot be written now.
func TestLateErrorMayBeRetried(t *testing.T) {
	err := error(&evidence.LateError{})
	if !errors.Is(err, evidence.ErrUnavailable) || errors.Is(err, evidence.ErrNotWritten) {
		t.Errorf("%v: a late record is unavailable, and may still be written", err)
	}
	if !strings.Contains(err.Error(), "in time") {
		t.Errorf("the error is %q; want the time in it", err)
	}
}
