package holder_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder"
)

// An agent asks for what its task needs, calls under it, hands a part of it to
// another agent, and gives it back.
func Example() {
	ctx := context.Background()
	err := func() error {
		key, err := holder.LoadKey("orchestrator.key.json")
		if err != nil {
			return err
		}
		client := &holder.Client{
			Key: key, HTTP: http.DefaultClient, Now: time.Now, Random: rand.Reader,
			Session: func(context.Context, string) (string, error) { return "the user's access token", nil },
		}
		documents, err := client.Discover(ctx, "https://gateway.example/agents/documents")
		if err != nil {
			return err
		}
		grants, operations, err := documents.Needs("retrieve_document")
		if err != nil {
			return err
		}
		held, err := client.Request(ctx, documents, holder.RequestParams{
			Grants: grants, Operations: operations, Purpose: "Summarise the Q1 report for Alice.",
			Query: powerbox.Object(powerbox.Member{Name: "collection", Value: powerbox.String("reports")}),
		})
		if err != nil {
			return err
		}
		report := held[0].Handles[0].Handle
		if _, err := client.Invoke(ctx, documents, held[0], "retrieve_document",
			powerbox.Object(powerbox.Member{Name: "resourceHandle", Value: powerbox.String(report)})); err != nil {
			return err
		}
		summariser, err := client.Discover(ctx, "https://gateway.example/agents/summariser")
		if err != nil {
			return err
		}
		handed, err := client.Delegate(held[0], summariser.Holder, holder.Narrowing{Handles: []string{report}})
		if err != nil {
			return err
		}
		metadata := map[string]any{holder.ExtensionURI: holder.Delegations(handed)}
		fmt.Println("to be sent with the message:", metadata)
		return client.Revoke(ctx, documents, held[0])
	}()
	fmt.Println(err)
}
