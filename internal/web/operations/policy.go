package operations

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/powerbox-project/powerbox/internal/sorting"
	"github.com/powerbox-project/powerbox/internal/web/api"
	"github.com/powerbox-project/powerbox/internal/web/lang"
)

// replayLimit is how many decisions a candidate is tried on.
const replayLimit = 5000

// policyPage has the policies in force and, after a try, what a candidate would change.
type policyPage struct {
	Digest  string
	Files   []api.PolicyFile // as shown in the form
	Tried   *api.ReplayAnswer
	Callers []policyCaller
	Patch   string
	Unknown int
	Limit   int
	Problem string

	Tests  []api.PolicyTest
	Failed int
}

// tests runs the tests beside the policies.
func (page *policyPage) tests(v *Visit) error {
	var out api.PolicyTests
	err := v.API.Get(v.Context(), "/v1/policies/tests", &out)
	page.Tests = out.Tests
	for _, t := range out.Tests {
		if !t.Passed {
			page.Failed++
		}
	}
	return err
}

// policyCaller is a caller with the decisions that change for it.
type policyCaller struct {
	Name          string
	Gains, Loses  int
	Narrower      int
	First, Record string // one of its changes, in words and by id
}

func (p *Pages) policy(v *Visit) (Answer, error) {
	in, err := inForce(v)
	if err != nil {
		return Answer{}, err
	}
	page := policyPage{Digest: in.Digest, Files: in.Files}
	return Answer{Page: "policy", Title: v.T("Policy"), Body: &page}, page.tests(v)
}

func inForce(v *Visit) (in api.PoliciesInForce, err error) {
	err = v.API.Get(v.Context(), "/v1/policies", &in)
	return in, err
}

// policyTry replays recorded decisions under a candidate. The form has one text for every
// file in force, and one more.
func (p *Pages) policyTry(v *Visit) (Answer, error) {
	in, err := inForce(v)
	if err != nil {
		return Answer{}, err
	}
	page := policyPage{Digest: in.Digest, Limit: replayLimit}
	if err := v.ParseForm(); err != nil {
		return Answer{}, &Refused{http.StatusBadRequest, "the form cannot be read"}
	}
	names, texts := v.PostForm["name"], v.PostForm["text"]
	if len(names) != len(texts) {
		return Answer{}, &Refused{http.StatusBadRequest, "the form has another number of names than of texts"}
	}
	files := map[string]string{}
	for i, name := range names {
		if name == "" || texts[i] == "" {
			continue
		}
		files[name] = normal(texts[i])
		page.Files = append(page.Files, api.PolicyFile{Name: name, Text: files[name]})
	}
	var answer api.ReplayAnswer
	err = v.API.Do(v.Context(), http.MethodPost, "/v1/policies/replay", api.Replay{Files: files, Limit: replayLimit}, &answer)
	var no *Refused
	switch {
	case errors.As(err, &no) && no.Status < http.StatusInternalServerError:
		page.Problem = v.Language.Said(no.Message)
		return Answer{Page: "policy", Title: v.T("Policy"), Body: page}, nil
	case err != nil:
		return Answer{}, err
	}
	page.Tried, page.Callers, page.Patch = &answer, byCaller(v.Language, answer.Changed), patch(in.Files, files)
	for _, n := range answer.Unknown {
		page.Unknown += n
	}
	return Answer{Page: "policy", Title: v.T("Policy"), Body: page}, nil
}

// normal undoes the line ends of a form.
func normal(text string) string {
	out := make([]byte, 0, len(text))
	for i := range len(text) {
		if text[i] != '\r' {
			out = append(out, text[i])
		}
	}
	return string(out)
}

// byCaller sums the changes by caller, those that lose most first.
func byCaller(l *lang.Language, changes []api.ReplayChange) []policyCaller {
	sums := map[string]*policyCaller{}
	for _, c := range changes {
		sum := sums[c.Requester]
		if sum == nil {
			sum = &policyCaller{Name: c.Requester, First: l.T("%s at %s: %s becomes %s", c.Operation, c.Agent, c.Was, c.Becomes), Record: c.Record}
			sums[c.Requester] = sum
		}
		switch c.Becomes {
		case "ALLOW":
			sum.Gains++
		case "DENY":
			sum.Loses++
		default:
			sum.Narrower++
		}
	}
	out := make([]policyCaller, 0, len(sums))
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		out = append(out, *sums[name])
	}
	sorting.Stable(out, func(a, b policyCaller) int {
		return cmp.Or(cmp.Compare(b.Loses, a.Loses), cmp.Compare(b.Gains, a.Gains))
	})
	return out
}

// patch is the difference between the files in force and a candidate.
func patch(now []api.PolicyFile, candidate map[string]string) string {
	left := maps.Clone(candidate)
	var out []byte
	for _, f := range now {
		out = append(out, diff.Diff("a/"+f.Name, []byte(f.Text), "b/"+f.Name, []byte(candidate[f.Name]))...)
		delete(left, f.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		out = append(out, diff.Diff("/dev/null", nil, "b/"+name, []byte(left[name]))...)
	}
	return string(out)
}
