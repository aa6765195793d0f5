-- +goose Up
CREATE TABLE host (
    id         TEXT PRIMARY KEY,
    thumbprint TEXT NOT NULL UNIQUE, -- of the key that it signs with now
    keys_url   TEXT NOT NULL,
    user       TEXT NOT NULL,
    created    INTEGER NOT NULL,     -- Unix milliseconds
    body       BLOB NOT NULL         -- everything, as JSON
) STRICT;
CREATE UNIQUE INDEX host_keys_url ON host (keys_url) WHERE keys_url <> '';
CREATE INDEX host_user ON host (user);

CREATE TABLE host_agent (
    id         TEXT PRIMARY KEY,
    host       TEXT NOT NULL REFERENCES host (id),
    thumbprint TEXT NOT NULL,
    body       BLOB NOT NULL,
    UNIQUE (host, thumbprint)
) STRICT;

CREATE TABLE agent_grant (
    id    TEXT PRIMARY KEY,
    agent TEXT NOT NULL REFERENCES host_agent (id),
    body  BLOB NOT NULL
) STRICT;
CREATE INDEX agent_grant_agent ON agent_grant (agent);

CREATE TABLE approval (
    id      TEXT PRIMARY KEY,
    code    BLOB NOT NULL,    -- keyed hash
    agent   TEXT NOT NULL REFERENCES host_agent (id),
    pending INTEGER NOT NULL, -- whether it was not answered
    body    BLOB NOT NULL
) STRICT;
CREATE INDEX approval_code ON approval (code);
CREATE INDEX approval_pending ON approval (pending) WHERE pending = 1;
CREATE INDEX approval_agent ON approval (agent);

CREATE TABLE job (
    id   TEXT PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;

-- +goose Down
DROP TABLE job;
DROP TABLE approval;
DROP TABLE agent_grant;
DROP TABLE host_agent;
DROP TABLE host;
