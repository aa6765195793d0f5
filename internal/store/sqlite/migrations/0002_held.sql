-- +goose Up
CREATE TABLE named_task ( -- tasks and contexts that a capability was issued for
    agent TEXT NOT NULL,
    task  TEXT NOT NULL,
    PRIMARY KEY (agent, task)
) STRICT, WITHOUT ROWID;
-- They stood among the tasks of the agents behind, whose ids can be anything;
-- those have a principal or a holder.
INSERT INTO named_task (agent, task)
    SELECT agent, substr(task, 7) FROM task WHERE substr(task, 1, 6) = 'named:' AND principal = '' AND holder = '';
DELETE FROM task WHERE substr(task, 1, 6) = 'named:' AND principal = '' AND holder = '';

ALTER TABLE capability ADD COLUMN grant_id TEXT NOT NULL DEFAULT '';
UPDATE capability SET grant_id = COALESCE(json_extract(CAST(body AS TEXT), '$.Grant'), '') WHERE json_valid(CAST(body AS TEXT));
DROP INDEX capability_holder;
CREATE INDEX capability_held ON capability (agent, holder, principal, expires, grant_id, created);

-- +goose Down
DROP INDEX capability_held;
CREATE INDEX capability_holder ON capability (agent, holder, created);
ALTER TABLE capability DROP COLUMN grant_id;
INSERT INTO task (agent, task, root, principal, holder)
    SELECT agent, 'named:' || task, '', '', '' FROM named_task WHERE true ON CONFLICT DO NOTHING;
DROP TABLE named_task;
