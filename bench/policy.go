package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/cedar-policy/cedar-go" //nolint:depguard // a peer in this row
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/policy"
)

// The decision: may this principal read this resource, by n policies of which
// the middle one permits it, each for another group or agent.

// ourPolicies asks the product's engine.
func ourPolicies(n int, operation string) (job, error) {
	files := map[string][]byte{} // a file has a largest size
	for i := range n {
		name := fmt.Sprintf("%d.cedar", i/1000)
		files[name] = fmt.Appendf(files[name], `permit (principal in Group::"g%d", action == Action::"documents/documents:read/read", resource in Collection::"documents/team") when { resource.attributes.env == "prod" };`+"\n", i)
	}
	env, err := powerbox.ParseValue([]byte(`"prod"`))
	if err != nil {
		return job{}, err
	}
	doc := policy.Resource{Agent: "documents", Collection: "team", ID: "d1", Name: "d1", Attributes: map[string]powerbox.Value{"env": env}}
	collections, err := catalogue.Collections([]catalogue.Item{doc})
	if err != nil {
		return job{}, err
	}
	engine, err := policy.Load(files, policy.Vocabulary{
		Operations:  []string{"documents/documents:read/read", "documents/documents:read/write"},
		Collections: collections,
	})
	if err != nil {
		return job{}, err
	}
	principal := policy.Principal{ID: "alice", Groups: []string{fmt.Sprintf("g%d", n/2)}}
	name := "documents/documents:read/" + operation
	return repeat(func() error {
		if !engine.Permits(principal, name, &doc, "documents", "documents:read").Allow {
			return errDenied
		}
		return nil
	}), nil
}

// decideAnd puts the decision of the algebra in front of that of policy.
func (p *product) decideAnd(j job) job {
	authority := p.parsed.Authority()
	return repeat(func() error {
		if !powerbox.Decide(p.read, authority, p.now).Allowed {
			return errDenied
		}
		return j.run()
	})
}

func cedarPolicies(n int, operation string) (job, error) {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `permit(principal in Group::"g%d", action == Action::"read", resource in Collection::"team") when { resource.env == "prod" };`+"\n", i)
	}
	set, err := cedar.NewPolicySetFromBytes("p.cedar", []byte(b.String()))
	if err != nil {
		return job{}, err
	}
	user, doc := cedar.NewEntityUID("User", "alice"), cedar.NewEntityUID("Doc", "d1")
	group, team := cedar.NewEntityUID("Group", cedar.String(fmt.Sprintf("g%d", n/2))), cedar.NewEntityUID("Collection", "team")
	request := cedar.Request{Principal: user, Action: cedar.NewEntityUID("Action", cedar.String(operation)), Resource: doc}
	return repeat(func() error {
		entities := cedar.EntityMap{
			user: {UID: user, Parents: cedar.NewEntityUIDSet(group)},
			doc:  {UID: doc, Parents: cedar.NewEntityUIDSet(team), Attributes: cedar.NewRecord(cedar.RecordMap{"env": cedar.String("prod")})},
		}
		if allowed, _ := cedar.Authorize(set, entities, request); allowed != cedar.Allow {
			return errDenied
		}
		return nil
	}), nil
}

// opaPolicies is a prepared query over n rules; OPA's own index finds the one. Its input is
// converted for each request. If ready, it was converted once, before.
func opaPolicies(n int, operation string, ready bool) (job, error) {
	var b strings.Builder
	b.WriteString("package p\ndefault allow := false\n")
	for i := range n {
		fmt.Fprintf(&b, "allow if { input.group == \"g%d\"; input.action == \"read\"; input.collection == \"team\"; input.env == \"prod\" }\n", i)
	}
	ctx := context.Background()
	query, err := rego.New(rego.Query("data.p.allow"), rego.Module("p.rego", b.String())).PrepareForEval(ctx)
	if err != nil {
		return job{}, err
	}
	input := map[string]any{"principal": "alice", "group": fmt.Sprintf("g%d", n/2), "action": operation, "collection": "team", "env": "prod"}
	given := rego.EvalInput(input)
	if ready {
		value, err := ast.InterfaceToValue(input)
		if err != nil {
			return job{}, err
		}
		given = rego.EvalParsedInput(value)
	}
	return repeat(func() error {
		results, err := query.Eval(ctx, given)
		if err == nil && !results.Allowed() {
			err = errDenied
		}
		return err
	}), nil
}
