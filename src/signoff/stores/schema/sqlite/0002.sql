-- Tasks: the executions of promises by workers of the durable promise protocol. A task has the id of its promise.
CREATE TABLE tasks (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'acquired', 'suspended', 'halted', 'fulfilled')),
    version INTEGER NOT NULL DEFAULT 0,
    target TEXT NOT NULL,
    queue TEXT NOT NULL,
    resumes TEXT NOT NULL DEFAULT '[]',  -- JSON: ids of settled promises that no acquisition has seen
    pid TEXT,
    ttl INTEGER,  -- milliseconds
    send_at REAL,  -- of a pending task
    lease_until REAL,  -- of an acquired task, by the clock of leases
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX tasks_to_send ON tasks (namespace, queue, send_at) WHERE state = 'pending';
CREATE INDEX tasks_leases ON tasks (lease_until) WHERE state = 'acquired';
CREATE INDEX tasks_by_process ON tasks (namespace, pid) WHERE state = 'acquired';
CREATE INDEX tasks_by_state ON tasks (namespace, state, id);

-- Promises that tasks await.
CREATE TABLE task_awaits (
    namespace TEXT NOT NULL,
    awaited TEXT NOT NULL,
    awaiter TEXT NOT NULL,
    address TEXT,  -- where the awaiter is sent then, if not to its target
    PRIMARY KEY (namespace, awaited, awaiter)
) STRICT, WITHOUT ROWID;

CREATE INDEX task_awaits_by_awaiter ON task_awaits (namespace, awaiter);

-- Addresses that are sent a promise once it is settled.
CREATE TABLE promise_listeners (
    namespace TEXT NOT NULL,
    promise_id TEXT NOT NULL,
    address TEXT NOT NULL,
    queue TEXT NOT NULL,
    send_at REAL,  -- NULL: the promise is pending
    PRIMARY KEY (namespace, promise_id, address)
) STRICT, WITHOUT ROWID;

CREATE INDEX promise_listeners_to_send ON promise_listeners (namespace, queue, send_at) WHERE send_at IS NOT NULL;

-- Promises of one branch, which a process receives together with its task.
CREATE TABLE promise_branches (
    namespace TEXT NOT NULL,
    branch TEXT NOT NULL,
    promise_id TEXT NOT NULL,
    PRIMARY KEY (namespace, branch, promise_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX promise_branches_by_promise ON promise_branches (namespace, promise_id);

CREATE TRIGGER promises_with_tasks AFTER DELETE ON promises BEGIN
    DELETE FROM tasks WHERE namespace = old.namespace AND id = old.id;
    DELETE FROM task_awaits WHERE namespace = old.namespace AND awaited = old.id;
    DELETE FROM task_awaits WHERE namespace = old.namespace AND awaiter = old.id;
    DELETE FROM promise_listeners WHERE namespace = old.namespace AND promise_id = old.id;
    DELETE FROM promise_branches WHERE namespace = old.namespace AND promise_id = old.id;
END;
