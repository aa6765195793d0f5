-- +goose Up
CREATE TABLE recorder ( -- every key by which this server ever signed records
    key      TEXT PRIMARY KEY, -- thumbprint
    body     BLOB NOT NULL,    -- the public key, as JSON
    enrolled INTEGER NOT NULL, -- Unix seconds, 0 where it signed before that was recorded
    closed   INTEGER NOT NULL  -- Unix seconds, 0 while it signs
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE recorder;
