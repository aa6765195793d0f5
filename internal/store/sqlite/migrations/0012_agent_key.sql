-- +goose Up
CREATE TABLE agent_key ( -- every issuing key that an agent was ever recorded with
    agent   TEXT NOT NULL,
    key     TEXT NOT NULL,    -- thumbprint
    renewed INTEGER NOT NULL, -- Unix seconds; since when the agent has it, as first recorded
    newest  INTEGER NOT NULL, -- 1 for the one that was recorded last
    PRIMARY KEY (agent, key)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE agent_key;
