-- Priorities and delayed starts. Runs that never started and others are claimed from an index each, so that those whom
-- a rate holds back are not in the way of the others.

ALTER TABLE runs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN start_at REAL;

-- The trace that a run belongs to, as W3C writes it.
ALTER TABLE runs ADD COLUMN traceparent TEXT;

-- Concurrency keys. A ready run is `blocked` once a claim has found its key's slots taken: so each is passed over once,
-- and not by every claim. When a slot is freed, the run of the key that comes first is unblocked.

ALTER TABLE runs ADD COLUMN concurrency_key TEXT;
ALTER TABLE runs ADD COLUMN concurrency_limit INTEGER;
ALTER TABLE runs ADD COLUMN blocked INTEGER NOT NULL DEFAULT 0;

CREATE INDEX runs_by_key ON runs (namespace, group_name, workflow, concurrency_key, state, blocked,
    concurrency_limit, priority DESC, ready_at)
    WHERE concurrency_key IS NOT NULL AND ended_at IS NULL;

DROP INDEX runs_ready;
CREATE INDEX runs_ready_new ON runs (namespace, group_name, workflow, priority DESC, ready_at)
    WHERE state = 'ready' AND epoch = 0 AND blocked = 0;
CREATE INDEX runs_ready_again ON runs (namespace, group_name, workflow, priority DESC, ready_at)
    WHERE state = 'ready' AND epoch > 0 AND blocked = 0;

-- Groups that are paused or limited. The rate of first starts is kept as in GCRA: `whole_at` is when its allowance is
-- whole again; `opens_at` is when it lets the next start through, if a claim has passed one over.
CREATE TABLE groups (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    is_paused INTEGER NOT NULL DEFAULT 0,
    max_running INTEGER,
    rate_count INTEGER,
    rate_seconds REAL,
    whole_at REAL,
    opens_at REAL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX groups_opening ON groups (opens_at) WHERE opens_at IS NOT NULL;

-- When a worker last said that it lives, by the clock of leases. One that is silent for long is forgotten.
ALTER TABLE workers ADD COLUMN seen_at REAL NOT NULL DEFAULT 0;
CREATE INDEX workers_seen ON workers (seen_at);

-- Retention: whole trees of runs go from their root.
CREATE INDEX runs_ended ON runs (namespace, ended_at)
    WHERE parent_id IS NULL AND ended_at IS NOT NULL AND retryable = 0;
CREATE INDEX waiters_by_run ON waiters (namespace, run_id);

CREATE TABLE schedules (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    workflow TEXT NOT NULL,
    group_name TEXT NOT NULL,
    arguments TEXT NOT NULL,
    cron TEXT NOT NULL,
    timezone TEXT NOT NULL,
    catch_up TEXT NOT NULL CHECK (catch_up IN ('skip', 'latest', 'all')),
    next_at REAL NOT NULL,
    priority INTEGER NOT NULL,
    concurrency_key TEXT,
    concurrency_limit INTEGER,
    created_at REAL NOT NULL,
    is_paused INTEGER NOT NULL,
    last_at REAL,
    last_run_id TEXT,
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX schedules_due ON schedules (next_at) WHERE is_paused = 0;
