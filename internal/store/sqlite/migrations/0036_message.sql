-- +goose Up
-- What webhooks have yet to be told of questions, and what they never took.
CREATE TABLE message (
    id   TEXT PRIMARY KEY,
    hook TEXT NOT NULL,
    due  INTEGER NOT NULL, -- Unix milliseconds of the next try
    died INTEGER NOT NULL, -- the same, of giving up; 0 while it is tried
    body BLOB NOT NULL     -- everything, as JSON
) STRICT;
CREATE INDEX message_due ON message (due) WHERE died = 0;
CREATE INDEX message_died ON message (died) WHERE died <> 0;

-- +goose Down
DROP TABLE message;
