-- +goose Up
-- Pages list capabilities by holder, user and agent, and the preview of a revocation reads the
-- trees that end: each by an index, of which only the part that lives is read.
ALTER TABLE capability ADD COLUMN parent TEXT NOT NULL DEFAULT ''; -- '' for a root
ALTER TABLE capability ADD COLUMN requester TEXT NOT NULL DEFAULT ''; -- configured name of the holder, '' for none
ALTER TABLE capability ADD COLUMN once INTEGER NOT NULL DEFAULT 0; -- a person gave it for one call
UPDATE capability SET
    parent = COALESCE(json_extract(CAST(body AS TEXT), '$.Ancestors[#-1]'), ''),
    requester = COALESCE(json_extract(CAST(body AS TEXT), '$.Requester'), ''),
    once = COALESCE(json_extract(CAST(body AS TEXT), '$.Once'), 0)
    WHERE json_valid(CAST(body AS TEXT));
DROP INDEX capability_root;
CREATE INDEX capability_root ON capability (root, expires);
CREATE INDEX capability_parent ON capability (parent, expires) WHERE parent <> '';
CREATE INDEX capability_expires ON capability (expires);
CREATE INDEX capability_agent ON capability (agent, expires);
CREATE INDEX capability_holder ON capability (holder, expires);
CREATE INDEX capability_requester ON capability (requester, expires);
CREATE INDEX capability_principal ON capability (principal, expires);
CREATE INDEX capability_once ON capability (expires) WHERE once = 1;

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
