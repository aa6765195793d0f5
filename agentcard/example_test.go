package agentcard_test

import (
	"fmt"

	"github.com/powerbox-project/powerbox/agentcard"
)

const card = `{
	"name": "Documents", "description": "Finds and reads documents.", "version": "1.4.0",
	"supportedInterfaces": [{"url": "https://documents.example/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
	"capabilities": {"streaming": false},
	"defaultInputModes": ["text/plain"], "defaultOutputModes": ["application/json"],
	"skills": [{"id": "read", "name": "Read", "description": "Reads a document.", "tags": ["documents"]}]
}`

// Whether an agent will do is known from its card, before anything is sent.
func ExampleCompatible() {
	parsed, err := agentcard.Parse([]byte(card))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, needs := range []agentcard.Needs{
		{Skills: []string{"read"}},
		{Skills: []string{"read", "delete"}, Features: []string{"streaming"}},
	} {
		answer := agentcard.Compatible(parsed, needs)
		fmt.Printf("compatible: %t %q\n", answer.Compatible, answer.Interface.URL)
		for _, reason := range answer.Reasons {
			fmt.Println("   ", reason.Message)
		}
	}
	// Output:
	// compatible: true "https://documents.example/a2a"
	// compatible: false ""
	//     the agent says that it has no streaming
	//     the agent has no skill "delete"
}

// A new version of a card is held against the one before.
func ExampleDiffCards() {
	before, err := agentcard.Parse([]byte(card))
	if err != nil {
		fmt.Println(err)
		return
	}
	after, err := agentcard.Parse([]byte(`{
	"name": "Documents", "description": "Finds and reads documents.", "version": "1.5.0",
	"supportedInterfaces": [{"url": "https://documents.example/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
	"capabilities": {"streaming": true},
	"defaultInputModes": ["text/plain"], "defaultOutputModes": ["application/json"],
	"skills": [{"id": "fetch", "name": "Read", "description": "Reads a document.", "tags": ["documents"]}]
}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, change := range agentcard.DiffCards(before, after) {
		fmt.Println(change)
	}
	// Output:
	// widens  feature streaming: is declared for the first time
	// breach  skill read: was there and is dropped
	// widens  skill fetch: is new
	// note    version: was "1.4.0", is "1.5.0"
}

// Everything that is wrong with a card is said at once, each with its place.
func ExampleLint() {
	_, problems := agentcard.Lint([]byte(`{"name": "Documents", "version": "1.4.0",
		"supportedInterfaces": [{"url": "documents.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
		"capabilities": {"streaming": "yes"}}`), false)
	for _, p := range problems {
		fmt.Println(p)
	}
	// Output:
	// error  /capabilities/streaming  streaming is a string; want true or false (wrong_type)
	// error  /defaultInputModes  AgentCard has no defaultInputModes, which A2A 1.0 requires (missing)
	// error  /defaultOutputModes  AgentCard has no defaultOutputModes, which A2A 1.0 requires (missing)
	// error  /description  AgentCard has no description, which A2A 1.0 requires (missing)
	// error  /skills  AgentCard has no skills, which A2A 1.0 requires (missing)
	// error  /supportedInterfaces/0/url  "documents.example" is no absolute https URL (url)
}
