-- +goose Up
-- Pages list capabilities by holder, user and agent, and the preview of a revocation reads the
-- trees that end: each by an index, of which only the part that lives is read.
ALTER TABLE capability ADD COLUMN parent BYTEA NOT NULL DEFAULT ''; -- '' for a root
ALTER TABLE capability ADD COLUMN requester BYTEA NOT NULL DEFAULT ''; -- configured name of the holder, '' for none
ALTER TABLE capability ADD COLUMN once BOOLEAN NOT NULL DEFAULT false; -- a person gave it for one call
UPDATE capability SET
    parent = COALESCE(convert_to(convert_from(body, 'UTF8')::json -> 'Ancestors' ->> -1, 'UTF8'), ''),
    requester = COALESCE(convert_to(convert_from(body, 'UTF8')::json ->> 'Requester', 'UTF8'), ''),
    once = COALESCE((convert_from(body, 'UTF8')::json ->> 'Once')::boolean, false);
DROP INDEX capability_root;
DROP INDEX capability_expires;
CREATE INDEX capability_root ON capability (root, expires) INCLUDE (made);
CREATE INDEX capability_parent ON capability (parent, expires) INCLUDE (made, id) WHERE parent <> '';
CREATE INDEX capability_expires ON capability (expires) INCLUDE (made);
CREATE INDEX capability_agent ON capability (agent, expires) INCLUDE (made);
CREATE INDEX capability_holder ON capability (holder, expires) INCLUDE (made);
CREATE INDEX capability_requester ON capability (requester, expires) INCLUDE (made);
CREATE INDEX capability_principal ON capability (principal, expires) INCLUDE (made);
CREATE INDEX capability_once ON capability (expires) WHERE once;

-- +goose Down
DROP INDEX capability_root;
DROP INDEX capability_parent;
DROP INDEX capability_expires;
DROP INDEX capability_agent;
DROP INDEX capability_holder;
DROP INDEX capability_requester;
DROP INDEX capability_principal;
DROP INDEX capability_once;
ALTER TABLE capability DROP COLUMN parent;
ALTER TABLE capability DROP COLUMN requester;
ALTER TABLE capability DROP COLUMN once;
CREATE INDEX capability_root ON capability (root);
CREATE INDEX capability_expires ON capability (expires);
