-- +goose Up
CREATE TABLE invitation (
    hash  BLOB PRIMARY KEY, -- keyed, of the token that was told once
    until INTEGER NOT NULL, -- Unix seconds
    body  BLOB NOT NULL     -- everything, as JSON
) STRICT;

-- +goose Down
DROP TABLE invitation;
