-- +goose Up
-- Agents can give one id to tasks of several tenants (ADR 96). What is there is in none.
CREATE TABLE task_new (
    agent     TEXT NOT NULL,
    tenant    TEXT NOT NULL, -- '' for none
    task      TEXT NOT NULL,
    root      TEXT NOT NULL,
    principal TEXT NOT NULL,
    holder    TEXT NOT NULL,
    PRIMARY KEY (agent, tenant, task)
) STRICT, WITHOUT ROWID;
INSERT INTO task_new (agent, tenant, task, root, principal, holder) SELECT agent, '', task, root, principal, holder FROM task;
DROP TABLE task;
ALTER TABLE task_new RENAME TO task;

CREATE TABLE named_task_new ( -- tasks and contexts that a capability was issued for
    agent  TEXT NOT NULL,
    tenant TEXT NOT NULL,
    task   TEXT NOT NULL,
    PRIMARY KEY (agent, tenant, task)
) STRICT, WITHOUT ROWID;
INSERT INTO named_task_new (agent, tenant, task) SELECT agent, '', task FROM named_task;
DROP TABLE named_task;
ALTER TABLE named_task_new RENAME TO named_task;

-- +goose Down
-- Without tenants nobody may have what is in one.
CREATE TABLE task_old (
    agent     TEXT NOT NULL,
    task      TEXT NOT NULL,
    root      TEXT NOT NULL,
    principal TEXT NOT NULL,
    holder    TEXT NOT NULL,
    PRIMARY KEY (agent, task)
) STRICT, WITHOUT ROWID;
INSERT INTO task_old (agent, task, root, principal, holder) SELECT agent, task, root, principal, holder FROM task WHERE tenant = '';
DROP TABLE task;
ALTER TABLE task_old RENAME TO task;
CREATE TABLE named_task_old (
    agent TEXT NOT NULL,
    task  TEXT NOT NULL,
    PRIMARY KEY (agent, task)
) STRICT, WITHOUT ROWID;
INSERT INTO named_task_old (agent, task) SELECT agent, task FROM named_task WHERE tenant = '';
DROP TABLE named_task;
ALTER TABLE named_task_old RENAME TO named_task;
