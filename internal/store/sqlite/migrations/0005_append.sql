-- +goose Up
-- What a record says is in its bytes alone, and its id finds it. Where a chain
-- ended when the log had as many records as the checkpoint names is in its row;
-- the records behind those tell the rest.
ALTER TABLE chain ADD COLUMN last INTEGER NOT NULL DEFAULT -1; -- place of its last record, -1 for none
UPDATE chain SET last = COALESCE((SELECT MAX(place) FROM record WHERE record.chain = chain.chain), -1);
ALTER TABLE checkpoint ADD COLUMN heads INTEGER NOT NULL DEFAULT 0; -- records that chain.last knows
UPDATE checkpoint SET heads = size;

CREATE TABLE entry (
    place INTEGER PRIMARY KEY, -- in the log, from 0
    id    TEXT NOT NULL UNIQUE,
    time  INTEGER NOT NULL,    -- Unix milliseconds
    bytes BLOB NOT NULL        -- the sealed record, never written anew
) STRICT;
INSERT INTO entry (place, id, time, bytes) SELECT place, id, time, bytes FROM record ORDER BY place;
DROP TABLE record;
ALTER TABLE entry RENAME TO record;

-- A row has the hashes that a batch added, 32 bytes each, the first at place.
ALTER TABLE tree RENAME COLUMN hash TO hashes;

-- +goose Down
CREATE TABLE hash (
    place INTEGER PRIMARY KEY,
    hash  BLOB NOT NULL
) STRICT;
WITH RECURSIVE single (place, rest) AS (
    SELECT place, hashes FROM tree
    UNION ALL
    SELECT place + 1, substr(rest, 33) FROM single WHERE length(rest) > 32
)
INSERT INTO hash (place, hash) SELECT place, substr(rest, 1, 32) FROM single;
DROP TABLE tree;
ALTER TABLE hash RENAME TO tree;

CREATE TABLE entry (
    place      INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    chain      BLOB NOT NULL,
    sequence   INTEGER NOT NULL,
    agent      TEXT NOT NULL,
    requester  TEXT NOT NULL,
    task       TEXT NOT NULL,
    operation  TEXT NOT NULL,
    decision   TEXT NOT NULL,
    outcome_of TEXT NOT NULL,
    time       INTEGER NOT NULL,
    bytes      BLOB NOT NULL,
    UNIQUE (chain, sequence)
) STRICT;
INSERT INTO entry
    SELECT place, id, unhex(said ->> '$.powerbox.chain_id'), said ->> '$.powerbox.sequence', said ->> '$.agent_id',
        COALESCE(said ->> '$.powerbox.requester', ''), COALESCE(said ->> '$.task_id', ''), said ->> '$.intent.operation',
        said ->> '$.decision', COALESCE(said ->> '$.powerbox.outcome_of', ''), time, bytes
    FROM (SELECT place, id, time, bytes, CAST(bytes AS TEXT) AS said FROM record) ORDER BY place;
DROP TABLE record;
ALTER TABLE entry RENAME TO record;
CREATE INDEX record_agent ON record (agent, time);
CREATE INDEX record_outcome ON record (outcome_of) WHERE outcome_of <> '';

ALTER TABLE checkpoint DROP COLUMN heads;
ALTER TABLE chain DROP COLUMN last;
