package gate

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/evidence"
)

// A denied call is on record however long and odd its texts are, and each text that
// was cut says its digest.
func TestATK4_ADenialIsRecordedWhateverItSays(t *testing.T) {
	for _, letter := range []string{"x", "\x01", "<", "\u00e9", `"`} {
		t.Run(fmt.Sprintf("%q", letter), func(t *testing.T) {
			w := newTown(t)
			long := strings.Repeat(letter, 100<<10)
			call := w.call(Require, try(t, "delete"))
			call.Task, call.Tenant, call.Record.Intent.Purpose, call.Record.Details.TraceID = long, long, long, long
			call.Record.Details.Arguments = powerbox.Object(powerbox.Member{Name: long, Value: powerbox.String(long)}).AppendJSON(nil)
			for range 100 {
				call.Refused = append(call.Refused, evidence.Reason{Code: "x", Operation: long, Argument: long, Message: long})
			}
			got := w.check(call).Record
			if got.Decision != evidence.Deny {
				t.Fatalf("ATK-4: the call is not denied on record: %q", got.Decision)
			}
			want := fmt.Sprintf("... (%d bytes, sha256 %x)", len(long), sha256.Sum256([]byte(long)))
			if !strings.HasSuffix(got.TaskID, want) || !strings.HasSuffix(got.Intent.Purpose, want) {
				t.Errorf("ATK-4: a text that was cut does not end in %s: %.300q", want, got.TaskID)
			}
			if n := stated(got); n > maxStated {
				t.Errorf("ATK-4: the record states %d bytes; want at most %d", n, maxStated)
			}
		})
	}
}

// The denial of an unknown caller takes little room in the log.
func TestATK4_AnonymousDenialsAreShort(t *testing.T) {
	w := newTown(t)
	long := strings.Repeat("x", 900)
	call := w.call(Require, try(t, "delete"))
	call.Caller, call.Record.Intent.Purpose, call.Task = Caller{}, long, long
	call.Origin = func(string) string { return "" }
	for range 20 {
		call.Refused = append(call.Refused, evidence.Reason{Code: "x", Message: long})
	}
	got := w.check(call).Record
	if len(got.Intent.Purpose) > 400 || len(got.Details.Reasons) > 17 || stated(got) > 12<<10 {
		t.Errorf("ATK-4: the record states %d bytes with %d reasons", stated(got), len(got.Details.Reasons))
	}
	known := w.call(Require, try(t, "delete"))
	known.Record.Intent.Purpose = long
	if got := w.check(known).Record; got.Intent.Purpose != long {
		t.Errorf("ATK-4: the purpose of a known caller is cut: %.80q", got.Intent.Purpose)
	}
}
