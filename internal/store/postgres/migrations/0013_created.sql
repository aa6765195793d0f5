-- +goose Up
-- A bulk revocation ends everything that was issued, also by a clock that is ahead.
CREATE INDEX capability_created ON capability (created);

-- +goose Down
DROP INDEX capability_created;
