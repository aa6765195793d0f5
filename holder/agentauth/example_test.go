package agentauth_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox/holder/agentauth"
)

// An agent is registered at a provider, waits for a person where one has to
// approve, and executes a capability.
func Example() {
	store, err := agentauth.Open("agentauth.store", "a passphrase of at least sixteen characters", rand.Reader)
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &agentauth.Client{
		Store: store, HTTP: &http.Client{}, Now: time.Now, Random: rand.Reader, HostName: "Alice's laptop",
		Approve: func(agent string, a agentauth.Approval) {
			fmt.Println(agent, "waits for a person:", a)
		},
	}
	ctx := context.Background()
	agent, err := client.Connect(ctx, "https://powerbox.example", agentauth.Connection{
		Name: "summariser",
		Capabilities: []agentauth.Ask{{
			Capability: "documents.read", Constraints: json.RawMessage(`{"collection": {"in": ["reports"]}}`),
		}},
		Asking: agentauth.Asking{Reason: "Summarise the Q1 report."},
	})
	var denied *agentauth.Denied
	if errors.As(err, &denied) {
		fmt.Println("somebody said no:", denied)
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := client.Execute(ctx, agent.ID, agentauth.Execution{
		Capability: "documents.read", Arguments: json.RawMessage(`{"collection": "reports"}`),
	}, nil)
	fmt.Println(result, err)
}
