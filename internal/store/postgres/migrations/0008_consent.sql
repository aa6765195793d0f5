-- +goose Up
-- What persons consented to at agents: refresh tokens, sealed under a key of the ring (ADR 141).
CREATE TABLE consent (
    agent  BYTEA NOT NULL,
    person BYTEA NOT NULL, -- by the name at the agent
    body   BYTEA NOT NULL,
    PRIMARY KEY (agent, person)
);

-- +goose Down
DROP TABLE consent;
