-- +goose Up
CREATE TABLE gateway_token ( -- one-time tokens that enrol a gateway, and nothing else
    hash    BLOB PRIMARY KEY,  -- SHA-256 of the secret
    agent   TEXT NOT NULL,
    expires INTEGER NOT NULL,  -- Unix seconds
    used    INTEGER NOT NULL   -- Unix seconds, 0 for never
) STRICT, WITHOUT ROWID;

CREATE TABLE gateway (
    id       TEXT PRIMARY KEY, -- also the name of its recorder
    agent    TEXT NOT NULL,
    body     BLOB NOT NULL,    -- its public keys, as JSON
    enrolled INTEGER NOT NULL, -- Unix seconds
    closed   INTEGER NOT NULL  -- Unix seconds, 0 while it is open
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE gateway;
DROP TABLE gateway_token;
