-- +goose Up
-- What callers have read (ADR 149): labels, and digests of the values that a rule can ask about.
CREATE TABLE data_label (
    holder       TEXT NOT NULL,
    principal    TEXT NOT NULL, -- '' where the session proved no user
    source       TEXT NOT NULL,
    untrusted    INTEGER NOT NULL,
    confidential INTEGER NOT NULL,
    since        INTEGER NOT NULL, -- milliseconds
    until        INTEGER NOT NULL, -- seconds
    PRIMARY KEY (holder, principal, source, untrusted, confidential)
) STRICT, WITHOUT ROWID;
CREATE INDEX data_label_until ON data_label (until);
CREATE TABLE data_value (
    holder    TEXT NOT NULL,
    principal TEXT NOT NULL,
    task      TEXT NOT NULL,
    digest    BLOB NOT NULL,
    until     INTEGER NOT NULL,
    PRIMARY KEY (holder, principal, task, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX data_value_until ON data_value (until);

-- +goose Down
DROP TABLE data_label;
DROP TABLE data_value;
