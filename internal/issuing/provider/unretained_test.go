package provider

import (
	"errors"
	"testing"
	"time"

	"github.com/powerbox-project/powerbox/internal/wire/agentauth"
)

// failingAt is a store in which one step fails. It has an ended host, an ended agent of it,
// and an active agent with a grant that is over.
type failingAt struct {
	Tx
	step string
	old  time.Time
}

var errDisk = errors.New("disk failure")

func (f failingAt) at(step string) error {
	if f.step == step {
		return errDisk
	}
	return nil
}

func (f failingAt) Hosts(string) ([]Host, error) {
	return []Host{{ID: "h1", Name: "laptop", Status: agentauth.Revoked, Updated: f.old}}, f.at("hosts")
}

func (f failingAt) HostAgents(string) ([]Agent, error) {
	return []Agent{{ID: "ended", Status: agentauth.Revoked, Updated: f.old}, {ID: "active", Status: agentauth.Active, Created: f.old, Clocks: Clocks{Absolute: 48 * time.Hour}}}, f.at("agents")
}

func (f failingAt) Grants(string) ([]Grant, error) {
	return []Grant{{ID: "over", Status: agentauth.Revoked, Updated: f.old}}, f.at("grants")
}

func (f failingAt) ForgetAgent(string) error       { return f.at("forget agent") }
func (f failingAt) ForgetGrant(string) error       { return f.at("forget grant") }
func (f failingAt) PutHost(Host) error             { return f.at("host") }
func (f failingAt) ForgetAnswered(time.Time) error { return f.at("answered") }

// TestAAPZ3_RetentionSaysThatItFailed: the transaction of a retention that could not be done
// is not committed, whichever step failed.
func TestAAPZ3_RetentionSaysThatItFailed(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, step := range []string{"", "hosts", "agents", "grants", "forget agent", "forget grant", "host", "answered"} {
		tx := failingAt{step: step, old: now.Add(-2 * time.Hour)}
		n, err := (&Provider{config: Config{Retention: time.Hour}}).retain(tx, now)
		if step == "" && (n != 1 || err != nil) || step != "" && !errors.Is(err, errDisk) {
			t.Errorf("AAP-Z3 %q fails: %d agents are forgotten, error %v", step, n, err)
		}
		if n, err := (&Provider{}).retain(tx, now); n != 0 || err != nil {
			t.Errorf("AAP-Z3 without a retention: %d agents are forgotten, error %v", n, err)
		}
	}
}
