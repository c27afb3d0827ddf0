-- Schedules of the durable promise protocol: promises that are created at the times of a cron expression.
CREATE TABLE promise_schedules (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    cron TEXT NOT NULL,
    data TEXT NOT NULL,  -- JSON: the promises
    next_at REAL NOT NULL,
    created_at REAL NOT NULL,
    last_at REAL,
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX promise_schedules_due ON promise_schedules (next_at);
