-- +goose Up
CREATE TABLE link ( -- which delegation link a nonce names, for its life
    id    TEXT PRIMARY KEY,  -- of delegator and nonce
    link  TEXT NOT NULL,     -- hash of the link
    until INTEGER NOT NULL   -- Unix seconds, the first after its expiry
) STRICT, WITHOUT ROWID;

CREATE INDEX link_until ON link (until);

-- +goose Down
DROP TABLE link;
