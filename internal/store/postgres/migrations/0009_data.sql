-- +goose Up
-- What callers have read (ADR 149): labels, and digests of the values that a rule can ask about.
CREATE TABLE data_label (
    holder       BYTEA NOT NULL,
    principal    BYTEA NOT NULL, -- '' where the session proved no user
    source       BYTEA NOT NULL,
    untrusted    BIGINT NOT NULL,
    confidential BIGINT NOT NULL,
    since        BIGINT NOT NULL, -- milliseconds
    until        BIGINT NOT NULL, -- seconds
    PRIMARY KEY (holder, principal, source, untrusted, confidential)
);
CREATE INDEX data_label_until ON data_label (until);
CREATE TABLE data_value (
    holder    BYTEA NOT NULL,
    principal BYTEA NOT NULL,
    task      BYTEA NOT NULL,
    digest    BYTEA NOT NULL,
    until     BIGINT NOT NULL,
    PRIMARY KEY (holder, principal, task, digest)
);
CREATE INDEX data_value_until ON data_value (until);

-- +goose Down
DROP TABLE data_label;
DROP TABLE data_value;
