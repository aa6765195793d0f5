-- +goose Up
-- Periods of the log that were closed. A period has the records from first up to,
-- and without, size; its checkpoint is final.
CREATE TABLE period (
    number   INTEGER PRIMARY KEY, -- from 1
    first    INTEGER NOT NULL,
    size     INTEGER NOT NULL,
    closed   INTEGER NOT NULL,    -- Unix milliseconds
    archived INTEGER NOT NULL,    -- 1 once its records are elsewhere
    note     BLOB NOT NULL        -- signed checkpoint of size entries
) STRICT;
-- Where a chain goes on whose last record is elsewhere; -1 while it is here.
ALTER TABLE chain ADD COLUMN sequence INTEGER NOT NULL DEFAULT -1;
ALTER TABLE chain ADD COLUMN hash BLOB;

-- +goose Down
ALTER TABLE chain DROP COLUMN hash;
ALTER TABLE chain DROP COLUMN sequence;
DROP TABLE period;
