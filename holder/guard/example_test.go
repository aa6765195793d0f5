package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/holder/guard"
)

// A tool that runs only if the gate says so, and of which it is told how it
// ended.
func ExampleGate_Do() {
	gate := &guard.Gate{
		URL: "http://127.0.0.1:8700", Token: "that of identity.guards",
		HTTP: &http.Client{Timeout: 10 * time.Second},
	}
	attempt := guard.Attempt{
		From: "triage", To: "files", Skill: "read_file", Arguments: json.RawMessage(`{"path": "reports/q1.txt"}`),
	}
	err := gate.Do(context.Background(), attempt, func(context.Context) error {
		return nil // read the file
	})
	var refused *guard.Refused
	if errors.As(err, &refused) {
		fmt.Println("for the model:", refused, "on record as", refused.Decision.ID)
	}
	fmt.Println("denied:", errors.Is(err, powerbox.ErrDenied), "no answer:", err != nil && refused == nil)
}

// Every request that a program's client sends is asked about first.
func ExampleTransport() {
	client := &http.Client{Transport: &guard.Transport{
		Gate: &guard.Gate{URL: "http://127.0.0.1:8700", Token: "that of identity.guards", HTTP: &http.Client{Timeout: 10 * time.Second}},
		Base: http.DefaultTransport,
		Attempt: func(r *http.Request) (guard.Attempt, error) {
			if r.Method != http.MethodGet {
				return guard.Attempt{}, fmt.Errorf("no rule for %s", r.Method)
			}
			arguments, err := json.Marshal(map[string]string{"path": strings.TrimPrefix(r.URL.Path, "/files/")})
			return guard.Attempt{From: "triage", To: "files", Skill: "read_file", Arguments: arguments}, err
		},
	}}
	fmt.Println(client.Transport != nil)
}
