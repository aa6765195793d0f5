-- +goose Up
-- Where a chain ends is what its last record says; the index on chain and
-- sequence finds it.
ALTER TABLE chain DROP COLUMN next;
ALTER TABLE chain DROP COLUMN hash;

-- +goose Down
ALTER TABLE chain ADD COLUMN next INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chain ADD COLUMN hash BLOB NOT NULL DEFAULT x'';
