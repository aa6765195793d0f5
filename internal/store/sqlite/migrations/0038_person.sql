-- +goose Up
-- People who were frozen or removed (ADR 102).
CREATE TABLE person (
    principal TEXT PRIMARY KEY,
    body      BLOB NOT NULL -- everything, as JSON
) STRICT;

-- +goose Down
DROP TABLE person;
