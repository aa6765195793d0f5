-- +goose Up
-- The checkpoint that witnesses have cosigned last, with what they said. It is
-- the checkpoint of an earlier size than the log has, as a rule.
CREATE TABLE cosigned (
    only INTEGER PRIMARY KEY CHECK (only = 0),
    note BLOB NOT NULL -- signed, with cosignatures
) STRICT;

-- +goose Down
DROP TABLE cosigned;
