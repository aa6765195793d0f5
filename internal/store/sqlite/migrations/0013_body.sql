-- +goose Up
-- What records commit to and do not hold. A row and the key in it are deleted
-- together, and overwritten (secure_delete): the record stays as it is.
CREATE TABLE body (
    place     INTEGER PRIMARY KEY, -- of its record in the log
    agent     TEXT NOT NULL,
    principal TEXT NOT NULL,       -- pseudonym, '' for none
    time      INTEGER NOT NULL,    -- of its record, Unix milliseconds
    key       BLOB NOT NULL,       -- 32 bytes
    bytes     BLOB NOT NULL
) STRICT;
CREATE INDEX body_time ON body (agent, time);

-- +goose Down
DROP TABLE body;
