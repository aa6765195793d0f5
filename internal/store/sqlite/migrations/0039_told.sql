-- +goose Up
-- Which record of a gateway's chain told the outcome of a decision first (ADR 113).
CREATE TABLE told (
    chain    BLOB NOT NULL,
    decision TEXT NOT NULL, -- id of the record that decided
    record   TEXT NOT NULL, -- id of the record that told
    PRIMARY KEY (chain, decision)
) STRICT, WITHOUT ROWID;
CREATE INDEX told_record ON told (record);

-- +goose Down
DROP TABLE told;
