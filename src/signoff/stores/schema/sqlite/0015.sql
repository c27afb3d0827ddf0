-- Runs that wait for an operator, and how often a run's worker was lost: `takeovers` counts since the journal last grew,
-- `takeover_seq` is its length when that happened last.

ALTER TABLE runs ADD COLUMN takeovers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN takeover_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN suspended_at REAL;
ALTER TABLE runs ADD COLUMN suspended_by TEXT;
ALTER TABLE runs ADD COLUMN suspended_reason TEXT;

CREATE INDEX runs_suspended ON runs (namespace) WHERE suspended_at IS NOT NULL;
