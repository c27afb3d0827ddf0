-- Sessions: chains of runs of which one at most is active at a time. A run that is behind another one is paused in epoch 0
-- without a time, so no claim and no timer comes across it, however many they are.

ALTER TABLE runs ADD COLUMN session_id TEXT;
ALTER TABLE runs ADD COLUMN position INTEGER;

CREATE INDEX runs_by_session ON runs (namespace, session_id, state) WHERE session_id IS NOT NULL;
CREATE INDEX runs_in_line ON runs (namespace, session_id, position)
    WHERE session_id IS NOT NULL AND (ended_at IS NULL OR retryable);

CREATE TABLE sessions (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    created_at REAL NOT NULL,
    last_at REAL NOT NULL,
    last_position INTEGER NOT NULL,
    last_number INTEGER NOT NULL,  -- of the run that was started last
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_by_last ON sessions (namespace, last_number);
