-- +goose Up
CREATE TABLE question (
    id      TEXT PRIMARY KEY,
    key     TEXT NOT NULL,    -- of a request; '' for a call
    holder  TEXT NOT NULL,
    state   TEXT NOT NULL,
    created INTEGER NOT NULL, -- Unix milliseconds
    ended   INTEGER NOT NULL, -- the same, 0 while it is open
    body    BLOB NOT NULL     -- everything, as JSON
) STRICT;
CREATE INDEX question_key ON question (key) WHERE key <> '';
CREATE INDEX question_open ON question (state) WHERE state = 'pending';
CREATE INDEX question_holder ON question (holder, created);
CREATE INDEX question_ended ON question (ended) WHERE ended <> 0;

CREATE TABLE held_call (
    question TEXT PRIMARY KEY REFERENCES question (id),
    agent    TEXT NOT NULL,
    task     TEXT NOT NULL,
    state    TEXT NOT NULL,
    body     BLOB NOT NULL,
    UNIQUE (agent, task)
) STRICT;
CREATE INDEX held_call_state ON held_call (state) WHERE state IN ('approved', 'being_made');

-- One decision can take from budgets of several capabilities.
CREATE TABLE reservation_of (
    decision   TEXT NOT NULL,
    capability TEXT NOT NULL,
    budget     TEXT NOT NULL,
    amount     TEXT NOT NULL,
    PRIMARY KEY (decision, capability, budget)
) STRICT, WITHOUT ROWID;
INSERT INTO reservation_of SELECT decision, capability, budget, amount FROM reservation;
DROP TABLE reservation;
ALTER TABLE reservation_of RENAME TO reservation;

-- +goose Down
CREATE TABLE reservation_of (
    decision   TEXT NOT NULL,
    capability TEXT NOT NULL,
    budget     TEXT NOT NULL,
    amount     TEXT NOT NULL,
    PRIMARY KEY (decision, budget)
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO reservation_of SELECT decision, capability, budget, amount FROM reservation;
DROP TABLE reservation;
ALTER TABLE reservation_of RENAME TO reservation;
DROP TABLE held_call;
DROP TABLE question;
