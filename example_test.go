package powerbox_test

import (
	"fmt"
	"time"

	"github.com/powerbox-project/powerbox"
)

// What a person holds, and what a task of theirs needs, as JSON. Programs that
// make an authority use NewAuthority.
func parse(object string) powerbox.Authority {
	v, err := powerbox.ParseValue([]byte(object))
	if err != nil {
		panic(err)
	}
	a, err := powerbox.ParseAuthority(v)
	if err != nil {
		panic(err)
	}
	return a
}

func try(operation, arguments string) powerbox.Attempt {
	op, err := powerbox.ParseOperation(operation)
	if err != nil {
		panic(err)
	}
	args, err := powerbox.ParseValue([]byte(arguments))
	if err != nil {
		panic(err)
	}
	attempt, err := powerbox.Invocation(op, args)
	if err != nil {
		panic(err)
	}
	return attempt
}

// Alice may do a lot with documents; the task may read one collection. Both
// together are what the agent may do, and every denial says why.
func Example() {
	alice := parse(`{"expires": "2026-12-31T00:00:00Z", "depth": 3, "operations": [
		{"match": "below", "name": "documents", "shape": {"fields": {}, "rest": "any"}}]}`)
	task := parse(`{"expires": "2026-12-01T10:15:00Z", "depth": 1, "operations": [
		{"match": "exact", "name": "documents.read", "shape": {"rest": "none", "fields": {
			"collection": {"required": true, "constraint": {"constraint_type": "one_of", "values": ["reports"]}},
			"pages": {"required": false, "constraint": {"constraint_type": "range", "max": 20}}}}}]}`)

	agent := alice.Meet(task)
	fmt.Println("covered by what Alice holds:", alice.Covers(agent))

	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	for _, attempt := range []powerbox.Attempt{
		try("documents.read", `{"collection": "reports", "pages": 3}`),
		try("documents.read", `{"collection": "salaries", "pages": 30}`),
		try("documents.delete", `{"collection": "reports"}`),
	} {
		decision := powerbox.Decide(attempt, agent, now)
		fmt.Println(attempt.Operation(), attempt.Arguments(), "allowed:", decision.Allowed)
		for _, reason := range decision.Reasons {
			fmt.Println("   ", reason)
		}
	}
	// Output:
	// covered by what Alice holds: true
	// documents.read {"collection":"reports","pages":3} allowed: true
	// documents.read {"collection":"salaries","pages":30} allowed: false
	//     operation "documents.read": argument "collection" does not satisfy its exact constraint
	//     operation "documents.read": argument "pages" does not satisfy its range constraint
	// documents.delete {"collection":"reports"} allowed: false
	//     operation "documents.delete" is not granted
}

// An authority that goes beyond another says in what.
func ExampleAuthority_Excess() {
	parent := parse(`{"expires": "2026-12-01T10:15:00Z", "depth": 1, "operations": [
		{"match": "exact", "name": "calendar.read", "shape": {"rest": "none", "fields": {
			"day": {"required": true, "constraint": {"constraint_type": "one_of", "values": ["2026-12-01", "2026-12-02"]}}}}}]}`)
	child := parse(`{"expires": "2026-12-01T11:00:00Z", "depth": 1, "operations": [
		{"match": "exact", "name": "calendar.read", "shape": {"rest": "none", "fields": {
			"day": {"required": true, "constraint": {"constraint_type": "one_of", "values": ["2026-12-01", "2026-12-24"]}}}}},
		{"match": "exact", "name": "calendar.write", "shape": {"rest": "any", "fields": {}}}]}`)
	for _, excess := range parent.Excess(child) {
		fmt.Println(excess)
	}
	// Output:
	// it would end later
	// operation "calendar.read": argument "day" would go beyond its one_of constraint
	// operation "calendar.write" is not in the wider authority
}
