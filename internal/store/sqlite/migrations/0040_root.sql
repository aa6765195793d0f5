-- +goose Up
-- The page of a capability lists those that descend from its root.
CREATE INDEX capability_root ON capability (root);

-- +goose Down
DROP INDEX capability_root;
