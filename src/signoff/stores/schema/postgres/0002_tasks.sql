-- Tasks: the executions of promises by workers of the durable promise protocol. A task has the id of its promise. Rows are
-- found by the shard of the promise that they belong to, as promises are.

CREATE TABLE signoff.tasks (
    shard text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL
        CHECK (state IN ('pending', 'acquired', 'suspended', 'halted', 'fulfilled')),
    version integer NOT NULL DEFAULT 0,
    target text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    resumes text[] COLLATE "C" NOT NULL DEFAULT '{}',  -- ids of settled promises that no acquisition has seen
    pid text COLLATE "C",
    ttl bigint,  -- milliseconds
    send_at double precision,  -- of a pending task
    lease_until double precision,  -- of an acquired task, by the clock of leases
    PRIMARY KEY (shard, namespace, id)
) WITH (fillfactor = 80);

-- Each leads with what only its own statements ask for, so that none is taken for another while the table is small.
CREATE INDEX tasks_to_send ON signoff.tasks (queue, namespace, send_at) WHERE state = 'pending';
CREATE INDEX tasks_leases ON signoff.tasks (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX tasks_by_process ON signoff.tasks (pid, namespace, id) WHERE pid IS NOT NULL;
CREATE INDEX tasks_by_namespace ON signoff.tasks ((namespace || ''), id);
CREATE INDEX tasks_by_state ON signoff.tasks ((state || ''), namespace, id);

-- Promises that tasks await.
CREATE TABLE signoff.task_awaits (
    shard text COLLATE "C" NOT NULL,  -- of the awaited promise
    namespace text COLLATE "C" NOT NULL,
    awaited text COLLATE "C" NOT NULL,
    awaiter text COLLATE "C" NOT NULL,
    address text COLLATE "C",  -- where the awaiter is sent then, if not to its target
    PRIMARY KEY (shard, namespace, awaited, awaiter)
);

CREATE INDEX task_awaits_by_awaiter ON signoff.task_awaits (awaiter, namespace);

-- Addresses that are sent a promise once it is settled.
CREATE TABLE signoff.promise_listeners (
    shard text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    promise_id text COLLATE "C" NOT NULL,
    address text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    send_at double precision,  -- NULL: the promise is pending
    PRIMARY KEY (shard, namespace, promise_id, address)
);

CREATE INDEX promise_listeners_to_send ON signoff.promise_listeners (queue, namespace, send_at) WHERE send_at IS NOT NULL;

-- Promises of one branch, or of the task that created them, which a process receives together with its task.
CREATE TABLE signoff.promise_branches (
    shard text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    promise_id text COLLATE "C" NOT NULL,
    branch text COLLATE "C" NOT NULL,
    PRIMARY KEY (shard, namespace, promise_id, branch)
);

CREATE INDEX promise_branches_by_branch ON signoff.promise_branches (branch, namespace, promise_id);

-- Every task, listener and branch goes with its promise.
CREATE TRIGGER promise_is_deleted AFTER DELETE ON signoff.promises
FOR EACH ROW EXECUTE FUNCTION signoff.delete_task();
