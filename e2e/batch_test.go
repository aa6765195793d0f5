package e2e

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/powerbox-project/powerbox/evidence"
)

// With evidence.signatures: batch a record may have no signature of its own. The
// keys that the server names to verifiers say that this is its way.
func TestEXT23_SignaturesOfBatches(t *testing.T) {
	w := start(t, options{extra: "evidence: {signatures: batch}"})
	alice := w.caller(aliceToken)
	c := alice.request("documents", map[string]any{
		"grants": []string{"documents:read"}, "purpose": "Read reports", "resourceQuery": map[string]any{"collection": "reports"},
	})[0]
	for range 5 {
		if a := alice.call("documents", "a2a/skill/invoke", map[string]any{"skill": "search_documents", "arguments": map[string]any{}, "capabilityId": c.ID}); a.Error != nil {
			t.Fatalf("%s", a.Raw)
		}
	}
	bundle := w.operator(http.MethodGet, "/v1/evidence/bundle", nil)
	trust, err := evidence.ParseTrust(bytes.TrimSpace(w.operator(http.MethodGet, "/v1/evidence/trust", nil)))
	if err != nil {
		t.Fatal(err)
	}
	report, err := evidence.Verify(bytes.NewReader(bundle), trust)
	if err != nil || report.Verdict() != evidence.OK || !trust.Batches || len(report.Pending) > 0 {
		t.Errorf("%v %v, batches are admitted: %v, without outcome: %v", err, report.Problems, trust.Batches, report.Pending)
	}
	if !bytes.Contains(bundle, []byte(`"signatures":"batch"`)) {
		t.Error("no record says that its batch is signed")
	}
}
