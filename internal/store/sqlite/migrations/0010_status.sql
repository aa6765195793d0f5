-- +goose Up
CREATE TABLE status_place ( -- of capabilities that foreign verifiers look up
    agent      TEXT NOT NULL,
    place      INTEGER NOT NULL, -- in the agent's list, random
    capability TEXT NOT NULL UNIQUE,
    expires    INTEGER NOT NULL, -- Unix seconds, from when the place is free
    PRIMARY KEY (agent, place)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE status_place;
