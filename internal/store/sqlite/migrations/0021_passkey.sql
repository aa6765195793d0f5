-- +goose Up
CREATE TABLE passkey (
    id        BLOB PRIMARY KEY, -- of the credential
    principal TEXT NOT NULL,
    body      BLOB NOT NULL     -- everything, as JSON
) STRICT;
CREATE INDEX passkey_principal ON passkey (principal);

-- +goose Down
DROP TABLE passkey;
