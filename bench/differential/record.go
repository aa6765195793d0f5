package main

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the store of the program under test
)

// record is what the harness reads of a decision record.
type record struct {
	ID       string `json:"record_id"`
	Agent    string `json:"agent_id"`
	Task     string `json:"task_id"`
	Decision string `json:"decision"`
	Action   string `json:"action_type"`
	Intent   struct {
		Operation string `json:"operation"`
	} `json:"intent"`
	Details struct {
		Tenant     string          `json:"tenant"`
		Attempt    string          `json:"attempt"`
		Mode       string          `json:"mode"`
		Capability string          `json:"capability"`
		Outcome    string          `json:"outcome_of"`
		Arguments  json.RawMessage `json:"arguments"`
	} `json:"powerbox"`
}

// claims is what the harness reads of a context. That it was signed is not looked
// at: the record that it names is.
type claims struct {
	Audience string `json:"aud"`
	Decision string `json:"decision"`
	Task     string `json:"task"`
	Tenant   string `json:"tenant"`
}

// parseContext reads the one context that a call came with.
func parseContext(values []string) (claims, error) {
	var c claims
	if len(values) != 1 {
		return c, fmt.Errorf("%d contexts came with the call; want one", len(values))
	}
	parts := strings.Split(values[0], ".")
	if len(parts) != 3 {
		return c, errors.New("the context is no JWS")
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err == nil && c.Decision == "" {
		err = errors.New("the context names no decision")
	}
	return c, err
}

// records reads decision records out of the store of a town.
type records struct {
	db *sql.DB
	by *sql.Stmt
}

func openRecords(ctx context.Context, dir string) (*records, error) {
	found, err := filepath.Glob(filepath.Join(dir, "powerbox-data", "*.db"))
	if err != nil || len(found) != 1 {
		return nil, fmt.Errorf("the store of %s: %v, %w", dir, found, err)
	}
	db, err := sql.Open("sqlite", "file:"+found[0]+"?mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	by, err := db.PrepareContext(ctx, "SELECT bytes FROM record WHERE id = ?")
	return &records{db, by}, err
}

func (r *records) close() { _ = r.db.Close() }

// recordTime is how long a record may take from the journal into the store.
const recordTime = 2 * time.Minute

// get waits for a record: an acknowledged one reaches the store a moment later.
func (r *records) get(ctx context.Context, id string) (record, error) {
	var raw []byte
	var out record
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // the store announces no writes
		err := r.by.QueryRowContext(ctx, id).Scan(&raw)
		if err == nil {
			return out, json.Unmarshal(raw, &out)
		}
		if !errors.Is(err, sql.ErrNoRows) || time.Since(start) > recordTime {
			return out, fmt.Errorf("record %s: %w", id, err)
		}
	}
}
