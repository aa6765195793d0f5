-- +goose Up
-- A start reads the revocations that are in force, and the other events.
CREATE INDEX revocation_until ON revocation (until, target) WHERE kind = 'revoke';
CREATE INDEX revocation_other ON revocation (sequence) WHERE kind <> 'revoke';

-- +goose Down
DROP INDEX revocation_until;
DROP INDEX revocation_other;
