-- +goose Up
-- Revocations, freezes and thaws share one sequence, in which no row is ever
-- changed: whoever follows it has seen everything.
CREATE TABLE stop (
    sequence INTEGER PRIMARY KEY, -- without gaps, from 1
    kind     TEXT NOT NULL,       -- revoke, freeze, thaw or extend
    target   TEXT NOT NULL,
    by       TEXT NOT NULL,
    reason   TEXT NOT NULL,
    at       INTEGER NOT NULL,    -- Unix seconds
    until    INTEGER NOT NULL     -- Unix seconds; 0 for a freeze and a thaw
) STRICT;
INSERT INTO stop (sequence, kind, target, by, reason, at, until)
    SELECT sequence, 'revoke', target, by, '', at, until FROM revocation ORDER BY sequence;
DROP TABLE revocation;
ALTER TABLE stop RENAME TO revocation;
CREATE INDEX revocation_target ON revocation (target, kind, until);

-- +goose Down
CREATE TABLE kept (
    sequence INTEGER PRIMARY KEY,
    target   TEXT NOT NULL UNIQUE,
    by       TEXT NOT NULL,
    at       INTEGER NOT NULL,
    until    INTEGER NOT NULL
) STRICT;
INSERT INTO kept (sequence, target, by, at, until)
    SELECT ROW_NUMBER() OVER (ORDER BY MIN(sequence)), target, by, at, MAX(until) FROM revocation WHERE kind = 'revoke' GROUP BY target;
DROP TABLE revocation;
ALTER TABLE kept RENAME TO revocation;
