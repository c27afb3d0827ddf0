-- When a deferred change is tried again, and how often it has failed: kept here, so that no process tries it before its
-- time, however many changes fail. Times are in unix seconds.

ALTER TABLE deferred ADD COLUMN next_at REAL NOT NULL DEFAULT 0;
ALTER TABLE deferred ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deferred ADD COLUMN first_at REAL;
ALTER TABLE deferred ADD COLUMN error TEXT;

CREATE INDEX deferred_next ON deferred (next_at, number);
CREATE INDEX deferred_failed ON deferred (next_at, number) WHERE failures > 0;
