-- Runs and promises carry a number, the order of their creation, by which they are listed.
-- Everything that belongs to a run is found by (namespace, run) alone.

CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    workflow TEXT NOT NULL,
    group_name TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('ready', 'running', 'paused', 'succeeded', 'failed', 'cancelled')),
    created_at REAL NOT NULL,
    parent_id TEXT,
    parent_n INTEGER,
    deadline_at REAL,
    deadline_passed INTEGER NOT NULL DEFAULT 0,
    ended_at REAL,
    retryable INTEGER NOT NULL DEFAULT 0,
    epoch INTEGER NOT NULL DEFAULT 0,
    wakes INTEGER NOT NULL DEFAULT 0,
    cancel_asked INTEGER NOT NULL DEFAULT 0,
    ready_at REAL NOT NULL,
    wake_at REAL,
    worker_id TEXT,
    lease_until REAL,
    first_seq INTEGER NOT NULL DEFAULT 0,
    arguments TEXT NOT NULL,
    result TEXT,
    error TEXT
) STRICT;

CREATE UNIQUE INDEX runs_by_id ON runs (namespace, id);
CREATE INDEX runs_by_state ON runs (namespace, state);
CREATE INDEX runs_by_workflow ON runs (namespace, workflow, state);
CREATE INDEX runs_by_group ON runs (namespace, group_name, state);
CREATE INDEX runs_by_parent ON runs (namespace, parent_id, state) WHERE parent_id IS NOT NULL;
CREATE INDEX runs_ready ON runs (namespace, group_name, workflow, ready_at) WHERE state = 'ready';
CREATE INDEX runs_leases ON runs (lease_until) WHERE state = 'running';
CREATE INDEX runs_held ON runs (worker_id) WHERE state = 'running';
CREATE INDEX runs_timers ON runs (wake_at) WHERE state = 'paused' AND wake_at IS NOT NULL;
CREATE INDEX runs_deadlines ON runs (deadline_at)
    WHERE deadline_at IS NOT NULL AND deadline_passed = 0 AND ended_at IS NULL;

CREATE TABLE journal (
    namespace TEXT NOT NULL,
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    n INTEGER,
    call TEXT,
    name TEXT,
    value TEXT,
    error TEXT,
    details TEXT,
    PRIMARY KEY (namespace, run_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE promises (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'resolved', 'rejected', 'cancelled', 'timed_out')),
    created_at REAL NOT NULL,
    run_id TEXT,
    n INTEGER,
    due_at REAL,
    settled_at REAL,
    settled_by TEXT,
    note TEXT,
    request_id TEXT,
    data TEXT,
    value TEXT
) STRICT;

CREATE UNIQUE INDEX promises_by_id ON promises (namespace, id);
CREATE INDEX promises_by_state ON promises (namespace, state, kind);
CREATE INDEX promises_by_run ON promises (namespace, run_id, state) WHERE run_id IS NOT NULL;
CREATE INDEX promises_due ON promises (due_at) WHERE state = 'pending' AND due_at IS NOT NULL;

-- Runs that wait for a promise or a run they did not create. The creator is on the promise's or run's own row.
CREATE TABLE waiters (
    namespace TEXT NOT NULL,
    target TEXT NOT NULL CHECK (target IN ('promise', 'run')),
    target_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (namespace, target, target_id, run_id, n)
) STRICT, WITHOUT ROWID;

-- Only what is not yet taken. The id is the run's `wakes` counter when the message came.
CREATE TABLE messages (
    namespace TEXT NOT NULL,
    run_id TEXT NOT NULL,
    id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at REAL NOT NULL,
    n INTEGER,
    name TEXT,
    state TEXT,
    value TEXT,
    error TEXT,
    "by" TEXT,
    note TEXT,
    PRIMARY KEY (namespace, run_id, id)
) STRICT, WITHOUT ROWID;

-- The request ids of signals, to know a repetition.
CREATE TABLE requests (
    namespace TEXT NOT NULL,
    run_id TEXT NOT NULL,
    request_id TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (namespace, run_id, request_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    process_started_at REAL NOT NULL,
    group_name TEXT NOT NULL
) STRICT, WITHOUT ROWID;
