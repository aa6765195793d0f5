-- +goose Up
-- Which record of a gateway's chain told the outcome of a decision first (ADR 113).
CREATE TABLE told (
    chain    BYTEA NOT NULL,
    decision BYTEA NOT NULL, -- id of the record that decided
    record   BYTEA NOT NULL, -- id of the record that told
    PRIMARY KEY (chain, decision)
);
CREATE INDEX told_record ON told (record);
