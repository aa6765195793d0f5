-- +goose Up
-- Whose held calls there are (ListTasks): the members of the owner, joined by the
-- unit separator.
ALTER TABLE held_call ADD COLUMN owner TEXT NOT NULL DEFAULT '';
UPDATE held_call SET owner = coalesce(json_extract(CAST(body AS TEXT), '$.Owner.Root'), '') || char(31)
    || coalesce(json_extract(CAST(body AS TEXT), '$.Owner.Principal'), '') || char(31) || coalesce(json_extract(CAST(body AS TEXT), '$.Owner.Holder'), '');
CREATE INDEX held_call_owner ON held_call (agent, owner);

-- +goose Down
DROP INDEX held_call_owner;
ALTER TABLE held_call DROP COLUMN owner;
