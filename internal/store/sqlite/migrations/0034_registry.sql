-- +goose Up
CREATE TABLE listing (
    id   TEXT PRIMARY KEY,
    body BLOB NOT NULL -- everything, as JSON
) STRICT;

-- +goose Down
DROP TABLE listing;
