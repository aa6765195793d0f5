package premises

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	_ "modernc.org/sqlite" // the store, for someone who writes to it behind the server's back
)

// Score is how far what an agent did speaks for it (docs/reference/scores.md).
type Score struct {
	Score  string `json:"score"` // from 0.0000 to 1.0000
	Level  string `json:"level"`
	Counts struct {
		Achieved, Failed, Partial int
	} `json:"counts"`
	Broken bool `json:"broken_chain"` // a chain of its evidence does not hold
}

// String is the score in words.
func (s Score) String() string {
	return fmt.Sprintf("%d achieved, %d failed: %s %s", s.Counts.Achieved, s.Counts.Failed, s.Score, s.Level)
}

// Score asks the server for the score of an agent. Levels are those of the answer
// or later ones from then on.
func (p *Premises) Score(ctx context.Context, agent string) (s Score, err error) {
	out, err := p.Operate(ctx, "trust", agent, "--output", "json")
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(out, &s)
}

// Recomputed are the scores of agents as a stranger has them from an export and
// pinned keys, without the server: by name; and whether the export holds.
func (p *Premises) Recomputed(ctx context.Context, agents ...string) (all map[string]Score, holds bool, err error) {
	dir, err := os.MkdirTemp("", "powerbox-auditor-")
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := p.export(ctx, dir); err != nil {
		return nil, false, err
	}
	all, holds = map[string]Score{}, true
	for _, agent := range agents {
		score, ok, err := p.recompute(ctx, dir, agent)
		if err != nil {
			return nil, false, err
		}
		all[agent], holds = score, holds && ok
	}
	return all, holds, nil
}

// recompute has the program compute a score in the auditor's folder. There is
// one where the bundle does not hold, too; exit code 4 says that.
func (p *Premises) recompute(ctx context.Context, dir, agent string) (s Score, holds bool, err error) {
	cmd := exec.CommandContext(ctx, p.binary, "trust", agent, "--from", "bundle.jsonl", "--trust", "trust.json", "--output", "json") //nolint:gosec // what Open built
	cmd.Dir, cmd.Env = dir, []string{}
	out, ended := cmd.Output()
	if err := json.Unmarshal(out, &s); err != nil {
		return s, false, fmt.Errorf("no score of %s from the export: %w", agent, errors.Join(ended, err))
	}
	code := cmd.ProcessState.ExitCode()
	if code != 0 && code != 4 {
		return s, false, fmt.Errorf("the score of %s from the export: %w", agent, ended)
	}
	return s, code == 0, nil
}

// Falsify stops the server, puts to for from in the first record of an agent that
// has it, and starts the server again: as someone does who can write to the
// store. What it returns puts back the record that was there.
func (p *Premises) Falsify(ctx context.Context, agent, from, to string) (restore func(context.Context) error, err error) {
	var place int64
	var record []byte
	err = p.behind(ctx, func(store *sql.DB) error {
		found := store.QueryRowContext(ctx, "SELECT place, bytes FROM record WHERE instr(CAST(bytes AS TEXT), ?) > 0 AND instr(CAST(bytes AS TEXT), ?) > 0 ORDER BY place LIMIT 1", `"agent_id":"`+agent+`"`, from)
		if err := found.Scan(&place, &record); err != nil {
			return fmt.Errorf("a record of %s with %s: %w", agent, from, err)
		}
		_, err := store.ExecContext(ctx, "UPDATE record SET bytes = CAST(replace(CAST(bytes AS TEXT), ?, ?) AS BLOB) WHERE place = ?", from, to, place)
		return err
	})
	return func(ctx context.Context) error {
		return p.behind(ctx, func(store *sql.DB) error {
			_, err := store.ExecContext(ctx, "UPDATE record SET bytes = ? WHERE place = ?", record, place)
			return err
		})
	}, err
}

// behind does something to the store while the server is down.
func (p *Premises) behind(ctx context.Context, do func(*sql.DB) error) error {
	if err := p.stop(); err != nil {
		return err
	}
	p.HTTP.CloseIdleConnections()
	store, err := sql.Open("sqlite", filepath.Join(p.dir, "powerbox-data", "powerbox.db"))
	if err != nil {
		return err
	}
	if err := errors.Join(do(store), store.Close()); err != nil {
		return err
	}
	return p.start(ctx)
}
