-- +goose Up
-- An index of the log, made behind it: which records name an agent, a caller or a user.
CREATE TABLE posting (
    name   BYTEA NOT NULL, -- hash of the member and its value
    first  BIGINT NOT NULL, -- place of the first record of the segment
    places BYTEA NOT NULL, -- of the records, as distances
    PRIMARY KEY (name, first)
);
CREATE TABLE posted (
    only_row BIGINT PRIMARY KEY CHECK (only_row = 0),
    place    BIGINT NOT NULL, -- of the first record that is not in the index
    swept    BIGINT NOT NULL  -- the index has no segment of records that were archived before
);
INSERT INTO posted (only_row, place, swept) VALUES (0, 0, 0);

-- +goose Down
DROP TABLE posting;
DROP TABLE posted;
