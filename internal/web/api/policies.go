package api

import (
	"maps"
	"net/http"
	"slices"
)

// PolicyFile is a file of policies.
type PolicyFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// PoliciesInForce are the policies by which requests are decided now.
type PoliciesInForce struct {
	Digest string       `json:"policy_digest"` // as in records
	Files  []PolicyFile `json:"files"`         // by name
}

// PolicyTests are the tables of tests beside the policies, run on the policies in force.
type PolicyTests struct {
	Digest string       `json:"policy_digest"` // that were asked
	Tests  []PolicyTest `json:"tests"`
}

// PolicyTest is one test with its answer.
type PolicyTest struct {
	File     string   `json:"file"`
	Name     string   `json:"name"`
	Passed   bool     `json:"passed"`
	Want     string   `json:"want,omitempty"`
	Got      string   `json:"got,omitempty"`
	Policies []string `json:"policies,omitempty"` // that decided
	Problem  string   `json:"problem,omitempty"`  // why it could not be asked
}

func (a *Admin) policyTests(*http.Request) (any, error) { return a.PolicyTests() }

func (a *Admin) policies(*http.Request) (any, error) {
	files := a.PolicyFiles()
	out := PoliciesInForce{Digest: a.Issuer.PolicyDigest(), Files: []PolicyFile{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		out.Files = append(out.Files, PolicyFile{name, string(files[name])})
	}
	return out, nil
}
