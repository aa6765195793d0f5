package token

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"
)

// published is the suite of draft -02, appendix E, as far as a verifier needs it.
type published struct {
	Audience string `json:"audience"`
	Anchors  []struct {
		Issuer string          `json:"iss"`
		Key    json.RawMessage `json:"jwk"`
	} `json:"trust_anchors"`
	Vectors []struct {
		ID        string   `json:"id"`
		Title     string   `json:"title"`
		Now       int64    `json:"now"`
		Tool      string   `json:"tool"`
		Arguments string   `json:"args"`
		Chain     []string `json:"chain"`
		Proof     string   `json:"pop"`
		Verdict   string   `json:"verdict"`
		Step      string   `json:"step"`
		Policy    struct {
			Nonce         string `json:"nonce"`
			ProofAudience bool   `json:"require_pop_aud"`
			ChainAudience bool   `json:"require_chain_aud"`
		} `json:"policy"`
	} `json:"vectors"`
}

// TestPublishedVectorsOfDraft02 answers all 115 vectors as the draft does, strictly and
// not.
func TestPublishedVectorsOfDraft02(t *testing.T) {
	data, err := os.ReadFile("testdata/aat-02/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var suite published
	if err := json.Unmarshal(data, &suite); err != nil {
		t.Fatal(err)
	}
	permitted := 0
	for _, v := range suite.Vectors {
		if v.Verdict == "PERMIT" {
			permitted++
		}
		chain, err := json.Marshal(v.Chain)
		if err != nil {
			t.Fatal(err)
		}
		r := CheckRequest{
			Anchors: slices.Concat([]byte(`{"keys":[`), suite.Anchors[0].Key, []byte(`]}`)), Chain: chain, Proof: []byte(v.Proof),
			Operation: v.Tool, Arguments: []byte(v.Arguments), At: time.Unix(v.Now, 0), Issuer: suite.Anchors[0].Issuer,
			Point: Point{
				Identity: []string{suite.Audience}, RequireAudience: v.Policy.ProofAudience,
				ChainAudience: v.Policy.ChainAudience, Nonce: v.Policy.Nonce,
			},
		}
		for _, strict := range []bool{false, true} {
			r.Strict = strict
			if got := Check(r); got.Allowed != (v.Verdict == "PERMIT") {
				t.Errorf("%s, %s, strict %t: allowed %t, want %s: %v", v.ID, v.Title, strict, got.Allowed, v.Verdict, got.Reasons)
			}
		}
	}
	if len(suite.Vectors) != 115 || permitted != 29 {
		t.Errorf("%d vectors, %d to be permitted; want 115 and 29", len(suite.Vectors), permitted)
	}
}
