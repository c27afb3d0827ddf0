-- Schedules of the durable promise protocol: promises that are created at the times of a cron expression.
CREATE TABLE signoff.promise_schedules (
    id text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    cron text NOT NULL,
    data text NOT NULL,  -- JSON: the promises
    next_at double precision NOT NULL,
    created_at double precision NOT NULL,
    last_at double precision,
    PRIMARY KEY (id, namespace)
);

CREATE INDEX promise_schedules_due ON signoff.promise_schedules (next_at);
