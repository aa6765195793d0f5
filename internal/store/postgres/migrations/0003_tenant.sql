-- +goose Up
-- Agents can give one id to tasks of several tenants (ADR 96). What is there is in none.
ALTER TABLE task ADD COLUMN tenant BYTEA NOT NULL DEFAULT '';
ALTER TABLE task DROP CONSTRAINT task_pkey, ADD CONSTRAINT task_pkey PRIMARY KEY (agent, tenant, task);
ALTER TABLE named_task ADD COLUMN tenant BYTEA NOT NULL DEFAULT '';
ALTER TABLE named_task DROP CONSTRAINT named_task_pkey, ADD CONSTRAINT named_task_pkey PRIMARY KEY (agent, tenant, task);
