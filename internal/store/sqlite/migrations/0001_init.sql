-- +goose Up
CREATE TABLE capability (
    id            TEXT PRIMARY KEY,
    root          TEXT NOT NULL,
    agent         TEXT NOT NULL,
    holder        TEXT NOT NULL,
    principal     TEXT NOT NULL,
    revocation_id TEXT NOT NULL UNIQUE,
    expires       INTEGER NOT NULL, -- Unix seconds
    created       INTEGER NOT NULL, -- Unix milliseconds
    body          BLOB NOT NULL     -- everything, as JSON
) STRICT;
CREATE INDEX capability_holder ON capability (agent, holder, created);

CREATE TABLE revocation (
    sequence INTEGER PRIMARY KEY, -- without gaps, from 1
    target   TEXT NOT NULL UNIQUE,
    by       TEXT NOT NULL,
    at       INTEGER NOT NULL,    -- Unix seconds
    until    INTEGER NOT NULL     -- Unix seconds
) STRICT;

CREATE TABLE task (
    agent     TEXT NOT NULL,
    task      TEXT NOT NULL,
    root      TEXT NOT NULL,
    principal TEXT NOT NULL,
    holder    TEXT NOT NULL,
    PRIMARY KEY (agent, task)
) STRICT, WITHOUT ROWID;

CREATE TABLE mode (
    agent TEXT PRIMARY KEY,
    mode  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE chain (
    agent    TEXT NOT NULL,
    recorder TEXT NOT NULL,
    chain    BLOB NOT NULL UNIQUE, -- 16 bytes
    next     INTEGER NOT NULL,     -- sequence of the next record
    hash     BLOB NOT NULL,        -- of the last record, 32 bytes
    PRIMARY KEY (agent, recorder)
) STRICT, WITHOUT ROWID;

CREATE TABLE record (
    place      INTEGER PRIMARY KEY, -- in the log, from 0
    id         TEXT NOT NULL UNIQUE,
    chain      BLOB NOT NULL,
    sequence   INTEGER NOT NULL,
    agent      TEXT NOT NULL,
    requester  TEXT NOT NULL,
    task       TEXT NOT NULL,
    operation  TEXT NOT NULL,
    decision   TEXT NOT NULL,
    outcome_of TEXT NOT NULL,
    time       INTEGER NOT NULL, -- Unix milliseconds
    bytes      BLOB NOT NULL,    -- the sealed record, never written anew
    UNIQUE (chain, sequence)
) STRICT;
CREATE INDEX record_agent ON record (agent, time);
CREATE INDEX record_outcome ON record (outcome_of) WHERE outcome_of <> '';

CREATE TABLE tree (
    place INTEGER PRIMARY KEY, -- of a stored hash
    hash  BLOB NOT NULL
) STRICT;

CREATE TABLE checkpoint (
    only INTEGER PRIMARY KEY CHECK (only = 0),
    size INTEGER NOT NULL,
    note BLOB NOT NULL
) STRICT;

-- +goose Down
DROP TABLE checkpoint;
DROP TABLE tree;
DROP TABLE record;
DROP TABLE chain;
DROP TABLE mode;
DROP TABLE task;
DROP TABLE revocation;
DROP TABLE capability;
