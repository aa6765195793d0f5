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

func (a *Admin) policies(*http.Request) (any, error) {
	files := a.PolicyFiles()
	out := PoliciesInForce{Digest: a.Issuer.PolicyDigest(), Files: []PolicyFile{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		out.Files = append(out.Files, PolicyFile{name, string(files[name])})
	}
	return out, nil
}
