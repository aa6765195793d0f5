-- +goose Up
-- How often listings and the cards of agents changed; and when everything was copied
-- from a store that used proofs are not remembered of (Unix seconds, 0 for never).
ALTER TABLE log ADD COLUMN cards BIGINT NOT NULL DEFAULT 0, ADD COLUMN copied BIGINT NOT NULL DEFAULT 0;
