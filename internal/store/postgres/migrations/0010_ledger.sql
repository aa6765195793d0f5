-- +goose Up
-- What the scores of agents and the graph have counted (ADR 150), sealed. It is made of the log alone.
CREATE TABLE ledger (
    only_row BIGINT PRIMARY KEY CHECK (only_row = 0),
    place    BIGINT NOT NULL, -- of the first record that is not counted
    draft    BYTEA NOT NULL,
    parts    BIGINT NOT NULL
);
CREATE TABLE ledger_part (
    draft BYTEA NOT NULL,
    part  BIGINT NOT NULL,
    body  BYTEA NOT NULL,
    PRIMARY KEY (draft, part)
);

-- +goose Down
DROP TABLE ledger;
DROP TABLE ledger_part;
