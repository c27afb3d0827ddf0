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
    error TEXT,
    create_token TEXT,  -- ids of calls, by which a call that is repeated is known
    claim_token TEXT,
    priority INTEGER NOT NULL DEFAULT 0,
    start_at REAL,
    traceparent TEXT,  -- the trace it belongs to, as W3C writes it
    concurrency_key TEXT,
    concurrency_limit INTEGER,
    blocked INTEGER NOT NULL DEFAULT 0,  -- it is ready, but a claim has found its key's slots taken
    started_by TEXT,
    session_id TEXT,
    position INTEGER,  -- in its session
    takeovers INTEGER NOT NULL DEFAULT 0,  -- how often its worker was lost since the journal last grew
    takeover_seq INTEGER NOT NULL DEFAULT 0,  -- the journal's length when its worker was last lost
    suspended_at REAL,  -- it waits for an operator
    suspended_by TEXT,
    suspended_reason TEXT
) STRICT;

CREATE UNIQUE INDEX runs_by_id ON runs (namespace, id);
CREATE INDEX runs_by_state ON runs (namespace, state);
CREATE INDEX runs_by_workflow ON runs (namespace, workflow, state);
CREATE INDEX runs_by_group ON runs (namespace, group_name, state);
CREATE INDEX runs_by_parent ON runs (namespace, parent_id, state) WHERE parent_id IS NOT NULL;
CREATE INDEX runs_leases ON runs (lease_until) WHERE state = 'running';
CREATE INDEX runs_held ON runs (worker_id) WHERE state = 'running';
CREATE INDEX runs_timers ON runs (wake_at) WHERE state = 'paused' AND wake_at IS NOT NULL;
CREATE INDEX runs_deadlines ON runs (deadline_at)
    WHERE deadline_at IS NOT NULL AND deadline_passed = 0 AND ended_at IS NULL;
-- Runs past their deadline that wait for a worker.
CREATE INDEX runs_unclaimed ON runs (max(deadline_at, ready_at))
    WHERE deadline_at IS NOT NULL AND deadline_passed = 1 AND state = 'ready';
CREATE INDEX runs_claims ON runs (claim_token) WHERE state = 'running' AND claim_token IS NOT NULL;

-- Concurrency keys. A ready run is `blocked` once a claim has found its key's slots taken: so each is passed over once,
-- and not by every claim. When a slot is freed, the run of the key that comes first is unblocked.
CREATE INDEX runs_by_key ON runs (namespace, group_name, workflow, concurrency_key, state, blocked,
    concurrency_limit, priority DESC, ready_at)
    WHERE concurrency_key IS NOT NULL AND ended_at IS NULL;

-- Runs that never started and others are claimed from an index each, so that runs that a rate holds back are not in the
-- way of the others.
CREATE INDEX runs_ready_new ON runs (namespace, group_name, workflow, priority DESC, ready_at)
    WHERE state = 'ready' AND epoch = 0 AND blocked = 0;

-- Retention: whole trees of runs go from their root.
CREATE INDEX runs_ended ON runs (namespace, ended_at)
    WHERE parent_id IS NULL AND ended_at IS NOT NULL AND retryable = 0;

-- Sessions. A run that is behind another one is paused in epoch 0 without a time, so no claim and no timer comes across
-- it, however many they are.
CREATE INDEX runs_by_session ON runs (namespace, session_id, state) WHERE session_id IS NOT NULL;
CREATE INDEX runs_in_line ON runs (namespace, session_id, position)
    WHERE session_id IS NOT NULL AND (ended_at IS NULL OR retryable);

CREATE INDEX runs_suspended ON runs (namespace) WHERE suspended_at IS NOT NULL;

-- Suspects, runs that have lost workers again and again without progress, are claimed apart from others: see
-- stores/shared/suspect_runs.py.
CREATE INDEX runs_ready_again ON runs (namespace, group_name, workflow, priority DESC, ready_at)
    WHERE state = 'ready' AND epoch > 0 AND takeovers < 2 AND blocked = 0;
CREATE INDEX runs_ready_suspect ON runs (namespace, group_name, workflow, min(takeovers, 4), priority DESC, ready_at)
    WHERE state = 'ready' AND takeovers >= 2 AND blocked = 0;
CREATE INDEX runs_held_suspects ON runs (worker_id) WHERE state = 'running' AND takeovers >= 2;

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

-- Large values, each stored by itself and perhaps compressed, so that what changes in a run's row does not write its
-- arguments again. In its own column is '', which is no JSON. `seq` is that of the journal's entry; -1 for the run's
-- arguments, -2 for its result. `bytes` is the length of the text. The first byte of `value` says how the rest is stored.
CREATE TABLE large_values (
    namespace TEXT NOT NULL,
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (namespace, run_id, seq)
) STRICT;

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
    value TEXT,
    create_token TEXT,
    settle_token TEXT,
    assignees TEXT NOT NULL DEFAULT '[]',  -- JSON
    act_at REAL,  -- when the policy of a question has something to do
    version INTEGER NOT NULL DEFAULT 0,
    progress TEXT,  -- JSON: what the policy keeps
    origin TEXT  -- JSON: from where it was settled
) STRICT;

CREATE UNIQUE INDEX promises_by_id ON promises (namespace, id);
CREATE INDEX promises_by_state ON promises (namespace, state, kind);
CREATE INDEX promises_by_run ON promises (namespace, run_id, state) WHERE run_id IS NOT NULL;
CREATE INDEX promises_due ON promises (due_at) WHERE state = 'pending' AND due_at IS NOT NULL;
CREATE INDEX promises_to_act ON promises (act_at)
    WHERE kind = 'question' AND state = 'pending' AND act_at IS NOT NULL;

-- Runs that wait for a promise or a run they did not create. The creator is on the promise's or run's own row.
CREATE TABLE waiters (
    namespace TEXT NOT NULL,
    target TEXT NOT NULL CHECK (target IN ('promise', 'run')),
    target_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (namespace, target, target_id, run_id, n)
) STRICT, WITHOUT ROWID;

CREATE INDEX waiters_by_run ON waiters (namespace, run_id);

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

-- Request ids of signals and answers, to know a repetition in the whole execution: a run, or all runs of its session.
-- `name` is the signal's name, or the promise that was answered; `value` is NULL for an answer.
CREATE TABLE requests (
    namespace TEXT NOT NULL,
    run_id TEXT NOT NULL,
    request_id TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT,
    token TEXT,
    session_id TEXT,
    PRIMARY KEY (namespace, run_id, request_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX requests_of_session ON requests (namespace, session_id, request_id)
    WHERE session_id IS NOT NULL AND value IS NULL;

CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    process_started_at REAL NOT NULL,
    group_name TEXT NOT NULL,
    namespace TEXT NOT NULL DEFAULT 'default',
    seen_at REAL NOT NULL DEFAULT 0,  -- when it last said that it lives, by the clock of leases
    signoff_version TEXT,  -- NULL, here and below, where the worker has not said it
    python_version TEXT,
    build TEXT,  -- what its code was built from
    threads INTEGER,  -- that run plain steps
    threads_busy INTEGER NOT NULL DEFAULT 0,
    threads_waiting INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX workers_seen ON workers (seen_at);

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

-- Sessions: chains of runs of which one at most is active at a time.
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

-- The ids of calls that amended, to know a repetition.
CREATE TABLE amendments (
    number INTEGER NOT NULL,  -- of the promise
    token TEXT NOT NULL,
    PRIMARY KEY (number, token)
) STRICT, WITHOUT ROWID;

-- Who may answer which pending question: '' is anybody.
CREATE TABLE inbox (
    namespace TEXT NOT NULL,
    assignee TEXT NOT NULL,
    number INTEGER NOT NULL,  -- of the promise
    PRIMARY KEY (namespace, assignee, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX inbox_by_number ON inbox (number);

-- The audit trail. Rows are added and never changed; `unsealed` are those that have no place in the chain yet.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    question_id TEXT NOT NULL,
    run_id TEXT,
    by TEXT,
    details TEXT,
    origin TEXT,  -- JSON: where the event came from
    UNIQUE (namespace, id)
) STRICT;

CREATE INDEX audit_by_question ON audit (namespace, question_id);
CREATE INDEX audit_by_run ON audit (namespace, run_id) WHERE run_id IS NOT NULL;
CREATE INDEX audit_by_namespace ON audit (namespace);

CREATE TABLE unsealed (
    number INTEGER PRIMARY KEY  -- of the event
) STRICT;

CREATE TABLE seals (
    namespace TEXT NOT NULL,
    seq INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (namespace, seq),
    UNIQUE (namespace, event_id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN
    SELECT raise(ABORT, 'audit events are not changed');
END;

CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
BEGIN
    SELECT raise(ABORT, 'audit events are not deleted');
END;

-- INSERT OR REPLACE deletes without a word to the trigger above.
CREATE TRIGGER audit_is_not_replaced BEFORE INSERT ON audit
WHEN EXISTS (SELECT 1 FROM audit WHERE number = NEW.number)
    OR EXISTS (SELECT 1 FROM audit WHERE namespace = NEW.namespace AND id = NEW.id)
BEGIN
    SELECT raise(ABORT, 'audit events are not changed');
END;

CREATE TRIGGER seals_are_not_changed BEFORE UPDATE ON seals
BEGIN
    SELECT raise(ABORT, 'seals of audit events are not changed');
END;

CREATE TRIGGER seals_are_not_deleted BEFORE DELETE ON seals
BEGIN
    SELECT raise(ABORT, 'seals of audit events are not deleted');
END;

CREATE TRIGGER seals_are_not_replaced BEFORE INSERT ON seals
WHEN EXISTS (SELECT 1 FROM seals WHERE namespace = NEW.namespace AND seq = NEW.seq)
    OR EXISTS (SELECT 1 FROM seals WHERE namespace = NEW.namespace AND event_id = NEW.event_id)
BEGIN
    SELECT raise(ABORT, 'seals of audit events are not changed');
END;

CREATE TRIGGER audit_waits_for_its_seal AFTER INSERT ON audit
BEGIN
    INSERT INTO unsealed VALUES (NEW.number);
END;

-- Whatever asks a question or settles it, is recorded with it, and moves it into and out of inboxes.
CREATE TRIGGER question_is_asked AFTER INSERT ON promises WHEN NEW.kind = 'question' AND NEW.state = 'pending'
BEGIN
    INSERT INTO inbox SELECT DISTINCT NEW.namespace, value, NEW.number FROM json_each(NEW.assignees);
    INSERT INTO inbox SELECT NEW.namespace, '', NEW.number WHERE NEW.assignees = '[]';
    INSERT INTO audit (namespace, id, at, kind, question_id, run_id, details)
    VALUES (
        NEW.namespace, lower(hex(randomblob(16))), NEW.created_at, 'asked', NEW.id, NEW.run_id,
        json_object('data', NEW.data, 'assignees', json(NEW.assignees), 'due_at', NEW.due_at)
    );
END;

CREATE TRIGGER question_is_reassigned AFTER UPDATE OF assignees ON promises
WHEN NEW.kind = 'question' AND NEW.state = 'pending' AND OLD.assignees <> NEW.assignees
BEGIN
    DELETE FROM inbox WHERE number = NEW.number;
    INSERT INTO inbox SELECT DISTINCT NEW.namespace, value, NEW.number FROM json_each(NEW.assignees);
    INSERT INTO inbox SELECT NEW.namespace, '', NEW.number WHERE NEW.assignees = '[]';
END;

-- The number of a promise that is gone may be another one's some day.
CREATE TRIGGER question_is_deleted AFTER DELETE ON promises WHEN OLD.kind = 'question'
BEGIN
    DELETE FROM inbox WHERE number = OLD.number;
    DELETE FROM amendments WHERE number = OLD.number;
END;

CREATE TRIGGER question_is_settled AFTER UPDATE OF state ON promises
WHEN NEW.kind = 'question' AND OLD.state = 'pending' AND NEW.state <> 'pending'
BEGIN
    DELETE FROM inbox WHERE number = NEW.number;
    INSERT INTO audit (namespace, id, at, kind, question_id, run_id, by, details, origin)
    VALUES (
        NEW.namespace, lower(hex(randomblob(16))), NEW.settled_at, NEW.state, NEW.id, NEW.run_id, NEW.settled_by,
        json_object('value', NEW.value, 'note', NEW.note, 'request_id', NEW.request_id), NEW.origin
    );
END;

-- Tokens: secrets that stand for a user, a question or a callback. Only their hashes are kept.
CREATE TABLE tokens (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,  -- looked up before the namespace is known
    subject TEXT NOT NULL,
    created_at REAL NOT NULL,
    question_id TEXT,
    data TEXT,  -- JSON
    label TEXT,
    created_by TEXT,
    expires_at REAL,
    revoked_at REAL,
    used_at REAL,
    ended_at REAL AS (min(coalesce(expires_at, revoked_at), coalesce(revoked_at, expires_at))),
    UNIQUE (namespace, id)
) STRICT;

CREATE INDEX tokens_by_kind ON tokens (namespace, kind);
CREATE INDEX tokens_by_subject ON tokens (namespace, kind, subject);
CREATE INDEX tokens_by_question ON tokens (namespace, kind, question_id) WHERE question_id IS NOT NULL;
CREATE INDEX tokens_ended ON tokens (namespace, ended_at) WHERE ended_at IS NOT NULL;

-- Notifications: how far each channel has read the chain of audit events, and what it has yet to deliver.
CREATE TABLE channels (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    seq INTEGER NOT NULL,  -- of the last event that it has made into deliveries
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE deliveries (
    number INTEGER PRIMARY KEY,  -- their order; one that is sent again gets a new one
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    channel TEXT NOT NULL,
    recipient TEXT NOT NULL,
    event_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    question_id TEXT NOT NULL,
    run_id TEXT,
    state TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'dropped', 'dead')),
    created_at REAL NOT NULL,
    due_at REAL,  -- of a pending one: NULL if it waits for an earlier one
    attempts INTEGER NOT NULL DEFAULT 0,
    ended_at REAL,
    error TEXT,
    UNIQUE (namespace, id)
) STRICT;

CREATE INDEX deliveries_due ON deliveries (namespace, channel, due_at) WHERE state = 'pending' AND due_at IS NOT NULL;
CREATE INDEX deliveries_in_lane ON deliveries (namespace, channel, question_id, recipient) WHERE state = 'pending';
CREATE INDEX deliveries_ended ON deliveries (namespace, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX deliveries_by_namespace ON deliveries (namespace);
CREATE INDEX deliveries_by_state ON deliveries (namespace, state);
CREATE INDEX deliveries_by_channel ON deliveries (namespace, channel);
CREATE INDEX deliveries_by_channel_and_state ON deliveries (namespace, channel, state);
CREATE INDEX deliveries_by_question ON deliveries (namespace, question_id);

-- Rules: what people have approved in their name for some time. One for a session, without a time of its own, expires at
-- infinity.
CREATE TABLE rules (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    created_at REAL NOT NULL,
    by TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,  -- JSON
    expires_at REAL NOT NULL,
    question_id TEXT NOT NULL,
    run_id TEXT,
    groups TEXT NOT NULL,  -- JSON
    roles TEXT NOT NULL,  -- JSON
    max_uses INTEGER,
    uses INTEGER NOT NULL DEFAULT 0,
    revoked_at REAL,
    revoked_by TEXT,
    session_id TEXT,
    UNIQUE (namespace, id)
) STRICT;

CREATE INDEX rules_by_namespace ON rules (namespace);
CREATE INDEX rules_by_maker ON rules (namespace, by);
CREATE INDEX rules_in_force ON rules (namespace, expires_at) WHERE revoked_at IS NULL;
CREATE INDEX rules_of_session ON rules (namespace, coalesce(session_id, ''), expires_at) WHERE revoked_at IS NULL;

-- The register of workflows: what workers run, and what it takes.
CREATE TABLE workflows (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    group_name TEXT NOT NULL,
    version TEXT NOT NULL,
    is_current INTEGER NOT NULL,
    description TEXT,
    parameters TEXT,  -- JSON
    seen_at REAL NOT NULL,
    PRIMARY KEY (namespace, name, group_name, version)
) STRICT;

-- What steps say while they run, for whoever reads along.
CREATE TABLE live (
    namespace TEXT NOT NULL,
    run_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    n INTEGER NOT NULL,
    name TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (namespace, run_id, epoch, seq)
) STRICT;

-- The time that all processes of this host go by, counted on clocks that nobody sets. One row; see stores/sqlite/clock.py.
CREATE TABLE clock (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    boot TEXT NOT NULL,             -- what the machine's clocks count from
    ahead REAL NOT NULL,            -- unix time, minus the time since boot with suspensions
    slow_from REAL NOT NULL,        -- time since boot, when the clock began to go slowly
    slow_time REAL NOT NULL,        -- unix time then
    lease_ahead REAL NOT NULL       -- lease time, minus the time since boot without suspensions
);

-- While leases are held after an outage: those that had run out by `before` have been held for `served` seconds in which
-- the store could be written, counted until `at`. Times are those of the lease clock. Kept here, so that processes that
-- begin anew again and again free them in the end. Leases that had run out by `but_until` have been held for long enough,
-- and are freed: so the count goes on for those that ran out later, also if one can never be freed. One row at most.
CREATE TABLE held_leases (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    before REAL NOT NULL,
    served REAL NOT NULL,
    at REAL NOT NULL,
    but_until REAL
) STRICT;

-- Changes of runs that follow from changes of other runs, and that the database refused to make: a next turn of a session
-- (`id` is the session's), a run that may have a slot, a run to cancel, a message to call `n` of a run that joined what
-- was settled. They are made later, alone. When one is tried again, and how often it has failed, is kept here, so that no
-- process tries it before its time, however many changes fail. Times are in unix seconds.
CREATE TABLE deferred (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    n INTEGER NOT NULL,
    details TEXT,
    next_at REAL NOT NULL DEFAULT 0,  -- when it is tried again
    failures INTEGER NOT NULL DEFAULT 0,
    first_at REAL,
    error TEXT,
    UNIQUE (namespace, id, kind, n)
) STRICT;

CREATE INDEX deferred_next ON deferred (next_at, number);
CREATE INDEX deferred_failed ON deferred (next_at, number) WHERE failures > 0;
