-- +goose Up
-- What the scores of agents and the graph have counted (ADR 150), sealed. It is made of the log alone.
CREATE TABLE ledger (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 0),
    place    INTEGER NOT NULL, -- of the first record that is not counted
    draft    TEXT NOT NULL,
    parts    INTEGER NOT NULL
) STRICT;
CREATE TABLE ledger_part (
    draft TEXT NOT NULL,
    part  INTEGER NOT NULL,
    body  BLOB NOT NULL,
    PRIMARY KEY (draft, part)
) STRICT;

-- +goose Down
DROP TABLE ledger;
DROP TABLE ledger_part;
