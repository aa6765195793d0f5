-- +goose Up
-- Tokens of hosts and agents that were used before the time that they were signed
-- at by this server's clock: a restart cannot tell those by their times.
CREATE TABLE used_token (
    id    TEXT PRIMARY KEY,
    until INTEGER NOT NULL -- Unix seconds, after which it is refused anyway
) STRICT;

-- +goose Down
DROP TABLE used_token;
