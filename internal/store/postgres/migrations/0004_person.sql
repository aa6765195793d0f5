-- +goose Up
-- People who were frozen or removed (ADR 102).
CREATE TABLE person (
    principal BYTEA PRIMARY KEY,
    body      BYTEA NOT NULL -- everything, as JSON
);
