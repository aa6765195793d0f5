package provider

import (
	"errors"
	"testing"
)

// counted counts the reads.
type counted struct {
	Reader
	reads int
	fails bool
}

func (c *counted) Grants(string) ([]Grant, error) {
	if c.reads++; c.fails {
		return nil, errors.New("the store is away")
	}
	return []Grant{{ID: "g"}}, nil
}

// TestQuestionsReadAnAgentOnce reads the grants of an agent for many questions: once. What
// one question changes is not in another, and an error is no answer that is kept.
func TestQuestionsReadAnAgentOnce(t *testing.T) {
	store := &counted{fails: true}
	r := remember(store)
	if _, err := r.Grants("a"); err == nil {
		t.Fatal("an error of the store is no error")
	}
	store.fails = false
	for range 500 {
		all, err := r.Grants("a")
		if err != nil || len(all) != 1 || all[0].ID != "g" {
			t.Fatalf("got %v %v", all, err)
		}
		all[0].ID = "changed"
	}
	if store.reads != 2 {
		t.Errorf("the store was read %d times; want 2: one failed", store.reads)
	}
}
