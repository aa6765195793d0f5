-- +goose Up
CREATE TABLE budget (
    capability TEXT NOT NULL, -- root on record
    budget     TEXT NOT NULL,
    used       TEXT NOT NULL, -- exact, as a fraction
    PRIMARY KEY (capability, budget)
) STRICT, WITHOUT ROWID;

CREATE TABLE reservation (
    decision   TEXT NOT NULL, -- id of the record
    capability TEXT NOT NULL,
    budget     TEXT NOT NULL,
    amount     TEXT NOT NULL,
    PRIMARY KEY (decision, budget)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE reservation;
DROP TABLE budget;
