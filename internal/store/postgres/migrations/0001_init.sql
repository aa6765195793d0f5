-- Every name that somebody else may choose is bytea: compared bytewise, whatever
-- bytes it has and whatever the database's collation is. Times are whole numbers
-- (Unix seconds or milliseconds) that callers give; the database's clock decides
-- nothing. "made" is the order in which rows were made.

-- +goose Up
-- The end of the log, and what every change of state moves. Whoever writes holds
-- this one row from its first statement to its commit.
CREATE TABLE log (
    only_row SMALLINT PRIMARY KEY CHECK (only_row = 0),
    size     BIGINT NOT NULL, -- records
    note     BYTEA NOT NULL,  -- signed checkpoint over them, empty for none
    epoch    BIGINT NOT NULL, -- commits; a writer commits under the number that it began with, or not at all
    made     BIGINT NOT NULL, -- rows that have an order
    stops    BIGINT NOT NULL, -- revocations, freezes and thaws
    modes    BIGINT NOT NULL, -- changes of modes
    gateways BIGINT NOT NULL, -- changes of gateways
    agents   BIGINT NOT NULL  -- changes of hosts, agents and grants
);
INSERT INTO log (only_row, size, note, epoch, made, stops, modes, gateways, agents) VALUES (0, 0, '', 0, 0, 0, 0, 0, 0);

-- Commits, so that whoever lost its connection can find out what became of its own.
CREATE TABLE committed (
    token BYTEA PRIMARY KEY, -- random
    epoch BIGINT NOT NULL
);
CREATE INDEX committed_epoch ON committed (epoch);

CREATE TABLE chain (
    agent    BYTEA NOT NULL,
    recorder BYTEA NOT NULL,
    chain    BYTEA NOT NULL UNIQUE, -- 16 bytes
    sequence BIGINT NOT NULL,       -- of its next record
    hash     BYTEA NOT NULL,        -- of its last record, 32 bytes
    PRIMARY KEY (agent, recorder)
);

CREATE TABLE record (
    place BIGINT PRIMARY KEY,    -- in the log, from 0
    id    BYTEA NOT NULL UNIQUE,
    time  BIGINT NOT NULL,       -- Unix milliseconds
    bytes BYTEA NOT NULL         -- the sealed record, never written anew
);

-- A row has the hashes that a commit added, 32 bytes each, the first at place.
CREATE TABLE tree (
    place  BIGINT PRIMARY KEY,
    hashes BYTEA NOT NULL
);

-- What records commit to and do not hold.
CREATE TABLE body (
    place     BIGINT PRIMARY KEY, -- of its record in the log
    agent     BYTEA NOT NULL,
    principal BYTEA NOT NULL,     -- pseudonym, empty for none
    time      BIGINT NOT NULL,    -- of its record, Unix milliseconds
    key       BYTEA NOT NULL,     -- 32 bytes
    bytes     BYTEA NOT NULL
);
CREATE INDEX body_time ON body (agent, time);

-- The checkpoint that witnesses have cosigned last.
CREATE TABLE cosigned (
    only_row SMALLINT PRIMARY KEY CHECK (only_row = 0),
    size     BIGINT NOT NULL,
    note     BYTEA NOT NULL -- signed, with cosignatures
);

CREATE TABLE period (
    number   BIGINT PRIMARY KEY, -- from 1
    first    BIGINT NOT NULL,
    size     BIGINT NOT NULL,
    closed   BIGINT NOT NULL,    -- Unix milliseconds
    archived BOOLEAN NOT NULL,   -- true once its records are elsewhere
    note     BYTEA NOT NULL      -- signed checkpoint of size entries
);

CREATE TABLE recorder ( -- every key by which this server ever signed records
    key      BYTEA PRIMARY KEY, -- thumbprint
    body     BYTEA NOT NULL,    -- the public key, as JSON
    enrolled BIGINT NOT NULL,   -- Unix seconds, 0 where it signed before that was recorded
    closed   BIGINT NOT NULL    -- Unix seconds, 0 while it signs
);

CREATE TABLE capability (
    id            BYTEA PRIMARY KEY,
    root          BYTEA NOT NULL,
    agent         BYTEA NOT NULL,
    holder        BYTEA NOT NULL,
    principal     BYTEA NOT NULL,
    grant_id      BYTEA NOT NULL,
    revocation_id BYTEA NOT NULL UNIQUE,
    expires       BIGINT NOT NULL, -- Unix seconds
    created       BIGINT NOT NULL, -- Unix milliseconds
    made          BIGINT NOT NULL UNIQUE,
    body          BYTEA NOT NULL   -- everything, as JSON
);
CREATE INDEX capability_held ON capability (agent, holder, principal, expires, grant_id, created);
CREATE INDEX capability_expires ON capability (expires);

-- Revocations, freezes and thaws share one sequence, in which no row is ever changed.
CREATE TABLE revocation (
    sequence BIGINT PRIMARY KEY, -- without gaps, from 1
    kind     BYTEA NOT NULL,     -- revoke, freeze, thaw, extend or epoch
    target   BYTEA NOT NULL,
    by_whom  BYTEA NOT NULL,
    reason   BYTEA NOT NULL,
    at       BIGINT NOT NULL,    -- Unix seconds
    until    BIGINT NOT NULL     -- Unix seconds; 0 for a freeze and a thaw
);
CREATE INDEX revocation_target ON revocation (target, kind, until);

CREATE TABLE task (
    agent     BYTEA NOT NULL,
    task      BYTEA NOT NULL,
    root      BYTEA NOT NULL,
    principal BYTEA NOT NULL,
    holder    BYTEA NOT NULL,
    PRIMARY KEY (agent, task)
);
CREATE TABLE named_task ( -- tasks and contexts that a capability was issued for
    agent BYTEA NOT NULL,
    task  BYTEA NOT NULL,
    PRIMARY KEY (agent, task)
);
CREATE TABLE mode (
    agent BYTEA PRIMARY KEY,
    mode  BYTEA NOT NULL
);

CREATE TABLE gateway_token ( -- one-time tokens that enrol a gateway, and nothing else
    hash    BYTEA PRIMARY KEY, -- SHA-256 of the secret
    agent   BYTEA NOT NULL,
    expires BIGINT NOT NULL,   -- Unix seconds
    used    BIGINT NOT NULL    -- Unix seconds, 0 for never
);
CREATE TABLE gateway (
    id       BYTEA PRIMARY KEY, -- also the name of its recorder
    agent    BYTEA NOT NULL,
    body     BYTEA NOT NULL,    -- its public keys, as JSON
    enrolled BIGINT NOT NULL,   -- Unix seconds
    closed   BIGINT NOT NULL    -- Unix seconds, 0 while it is open
);

CREATE TABLE link ( -- which delegation link a nonce names, for its life
    id    BYTEA PRIMARY KEY, -- of delegator and nonce
    link  BYTEA NOT NULL,    -- hash of the link
    until BIGINT NOT NULL    -- Unix seconds, the first after its expiry
);
CREATE INDEX link_until ON link (until);

CREATE TABLE status_place ( -- of capabilities that foreign verifiers look up
    agent      BYTEA NOT NULL,
    place      BIGINT NOT NULL, -- in the agent's list, random
    capability BYTEA NOT NULL UNIQUE,
    expires    BIGINT NOT NULL, -- Unix seconds, from when the place is free
    PRIMARY KEY (agent, place)
);

CREATE TABLE agent_key ( -- every issuing key that an agent was ever recorded with
    agent   BYTEA NOT NULL,
    key     BYTEA NOT NULL,   -- thumbprint
    renewed BIGINT NOT NULL,  -- Unix seconds; since when the agent has it, as first recorded
    newest  BOOLEAN NOT NULL, -- of the one that was recorded last
    PRIMARY KEY (agent, key)
);

CREATE TABLE budget (
    capability BYTEA NOT NULL, -- root on record
    budget     BYTEA NOT NULL,
    used       BYTEA NOT NULL, -- exact, as a fraction
    PRIMARY KEY (capability, budget)
);
CREATE TABLE reservation (
    decision   BYTEA NOT NULL, -- id of the record
    capability BYTEA NOT NULL,
    budget     BYTEA NOT NULL,
    amount     BYTEA NOT NULL,
    PRIMARY KEY (decision, capability, budget)
);

CREATE TABLE host (
    id         BYTEA PRIMARY KEY,
    thumbprint BYTEA NOT NULL UNIQUE, -- of the key that it signs with now
    keys_url   BYTEA NOT NULL,
    for_user   BYTEA NOT NULL,
    created    BIGINT NOT NULL,       -- Unix milliseconds
    body       BYTEA NOT NULL         -- everything, as JSON
);
CREATE UNIQUE INDEX host_keys_url ON host (keys_url) WHERE keys_url <> '';
CREATE INDEX host_user ON host (for_user);
CREATE TABLE host_agent (
    id         BYTEA PRIMARY KEY,
    host       BYTEA NOT NULL REFERENCES host (id),
    thumbprint BYTEA NOT NULL,
    made       BIGINT NOT NULL,
    body       BYTEA NOT NULL,
    UNIQUE (host, thumbprint)
);
CREATE TABLE agent_grant (
    id    BYTEA PRIMARY KEY,
    agent BYTEA NOT NULL REFERENCES host_agent (id),
    made  BIGINT NOT NULL,
    body  BYTEA NOT NULL
);
CREATE INDEX agent_grant_agent ON agent_grant (agent);
CREATE TABLE approval (
    id      BYTEA PRIMARY KEY,
    code    BYTEA NOT NULL,  -- keyed hash
    agent   BYTEA NOT NULL REFERENCES host_agent (id),
    pending BOOLEAN NOT NULL, -- whether it was not answered
    expires BIGINT NOT NULL, -- Unix seconds
    made    BIGINT NOT NULL,
    body    BYTEA NOT NULL
);
CREATE INDEX approval_code ON approval (code);
CREATE INDEX approval_pending ON approval (made) WHERE pending;
CREATE INDEX approval_agent ON approval (agent);
CREATE TABLE job (
    id      BYTEA PRIMARY KEY,
    agent   BYTEA NOT NULL,
    created BIGINT NOT NULL, -- Unix seconds
    body    BYTEA NOT NULL
);
CREATE TABLE passkey (
    id        BYTEA PRIMARY KEY, -- of the credential
    principal BYTEA NOT NULL,
    made      BIGINT NOT NULL,
    body      BYTEA NOT NULL
);
CREATE INDEX passkey_principal ON passkey (principal);
CREATE TABLE used_token (
    id    BYTEA PRIMARY KEY,
    until BIGINT NOT NULL -- Unix seconds, after which it is refused anyway
);
CREATE TABLE invitation (
    hash  BYTEA PRIMARY KEY, -- keyed, of the token that was told once
    until BIGINT NOT NULL,   -- Unix seconds
    body  BYTEA NOT NULL
);

CREATE TABLE question (
    id      BYTEA PRIMARY KEY,
    key     BYTEA NOT NULL,  -- of a request; empty for a call
    holder  BYTEA NOT NULL,
    state   BYTEA NOT NULL,
    created BIGINT NOT NULL, -- Unix milliseconds
    ended   BIGINT NOT NULL, -- the same, 0 while it is open
    made    BIGINT NOT NULL,
    body    BYTEA NOT NULL
);
CREATE INDEX question_key ON question (key, made) WHERE key <> '';
CREATE INDEX question_open ON question (made) WHERE state = 'pending';
CREATE INDEX question_holder ON question (holder, created);
CREATE INDEX question_ended ON question (ended) WHERE ended <> 0;
CREATE TABLE held_call (
    question BYTEA PRIMARY KEY REFERENCES question (id),
    agent    BYTEA NOT NULL,
    task     BYTEA NOT NULL,
    state    BYTEA NOT NULL,
    owner    BYTEA NOT NULL, -- its members, joined by the unit separator
    made     BIGINT NOT NULL,
    body     BYTEA NOT NULL,
    UNIQUE (agent, task)
);
CREATE INDEX held_call_owner ON held_call (agent, owner);
CREATE TABLE message ( -- what webhooks have yet to be told of questions, and what they never took
    id   BYTEA PRIMARY KEY,
    hook BYTEA NOT NULL,
    due  BIGINT NOT NULL, -- Unix milliseconds of the next try
    died BIGINT NOT NULL, -- the same, of giving up; 0 while it is tried
    body BYTEA NOT NULL
);
CREATE INDEX message_due ON message (due) WHERE died = 0;
CREATE INDEX message_died ON message (died) WHERE died <> 0;
CREATE INDEX held_call_state ON held_call (state) WHERE state IN ('approved', 'being_made');

CREATE TABLE listing (
    id   BYTEA PRIMARY KEY,
    body BYTEA NOT NULL
);

-- What nodes share for a while and no record tells: proofs that were used, logins,
-- outcomes that are awaited. A row counts until its time.
CREATE TABLE kept (
    kind  BYTEA NOT NULL,
    id    BYTEA NOT NULL,
    until BIGINT NOT NULL, -- Unix milliseconds
    value BYTEA NOT NULL,
    PRIMARY KEY (kind, id)
);
CREATE INDEX kept_until ON kept (until);
