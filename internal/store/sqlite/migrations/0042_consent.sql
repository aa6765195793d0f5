-- +goose Up
-- What persons consented to at agents: refresh tokens, sealed under a key of the ring (ADR 141).
CREATE TABLE consent (
    agent  TEXT NOT NULL,
    person TEXT NOT NULL, -- by the name at the agent
    body   BLOB NOT NULL,
    PRIMARY KEY (agent, person)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE consent;
