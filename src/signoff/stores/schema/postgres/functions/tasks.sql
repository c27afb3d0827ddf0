-- Tasks: invocations, their states, and what they await. See stores/contract/tasks.py.
--
-- Runs are locked before promises, and promises before tasks; several of a kind in order of their ids. Rows of task_awaits
-- are written by the holder of the locks on the awaited promise or on the awaiter. What falls due waits for no lock.
--
-- Functions of operations return {"missing": [noun, id]}, {"conflict": the task}, or what they found and did. "woken" are
-- the runs that were left a message.

-- The queue of an address: queue_of of records/tasks.py.
CREATE OR REPLACE FUNCTION signoff.queue_of(p_address text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN starts_with(p_address, 'poll://any@')
            THEN 'poll://any@' || split_part(substr(p_address, length('poll://any@') + 1), '/', 1)
        WHEN starts_with(p_address, 'http://') OR starts_with(p_address, 'https://') THEN 'push'
        ELSE p_address
    END
$$;

-- What a caller gets to know of a task, in the order of TASK_COLUMNS in stores/postgres/tasks.py.
CREATE OR REPLACE FUNCTION signoff.task_values(p_task signoff.tasks) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_array(
        (p_task).namespace, (p_task).id, (p_task).state, (p_task).target, (p_task).version, (p_task).resumes,
        (p_task).pid, (p_task).ttl
    )
$$;

-- Have the operation report that messages may be due, or a lease may be the first to expire.
CREATE OR REPLACE FUNCTION signoff.note_task_due() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('signoff.task_due', 'yes', true);
END $$;

-- Whether an operation has reported it since the last call.
CREATE OR REPLACE FUNCTION signoff.take_task_due() RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('signoff.task_due', true) = 'yes' THEN
        PERFORM set_config('signoff.task_due', '', true);
        RETURN true;
    END IF;
    RETURN false;
END $$;

-- The ids of the tasks that settling promises changes, in their order: those of the promises, and those that await them.
CREATE OR REPLACE FUNCTION signoff.tasks_of(p_namespaces text[], p_ids text[])
RETURNS TABLE (shard text, namespace text, id text)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        SELECT DISTINCT signoff.shard_of(found.id) COLLATE "C", found.namespace COLLATE "C", found.id COLLATE "C"
        FROM (
            SELECT listed.namespace, listed.id FROM unnest(p_namespaces, p_ids) AS listed (namespace, id)
            UNION ALL
            SELECT listed.namespace, awaits.awaiter
            FROM unnest(p_namespaces, p_ids) AS listed (namespace, id)
            JOIN signoff.task_awaits AS awaits
                ON awaits.shard = signoff.shard_of(listed.id) AND awaits.namespace = listed.namespace
                AND awaits.awaited = listed.id
        ) AS found
        ORDER BY 1, 2, 3;
END $$;

-- Lock the tasks that settling promises changes. The caller has the promises locked, so that no other begins to await them.
CREATE OR REPLACE FUNCTION signoff.lock_tasks_of(p_namespaces text[], p_ids text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM signoff.tasks_of(p_namespaces, p_ids) AS listed
    CROSS JOIN LATERAL (
        SELECT FROM signoff.tasks
        WHERE shard = listed.shard AND namespace = listed.namespace AND id = listed.id
        FOR NO KEY UPDATE
    ) AS task;
END $$;

-- Lock the tasks that settling a promise changes, unless another transaction has locked one. Returns whether they are.
CREATE OR REPLACE FUNCTION signoff.try_lock_tasks_of(p_namespace text, p_id text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    task record;
BEGIN
    FOR task IN SELECT * FROM signoff.tasks_of(ARRAY[p_namespace], ARRAY[p_id]) LOOP
        PERFORM FROM signoff.tasks
        WHERE shard = task.shard AND namespace = task.namespace AND id = task.id
        FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND AND EXISTS (
            SELECT FROM signoff.tasks WHERE shard = task.shard AND namespace = task.namespace AND id = task.id
        ) THEN
            RETURN false;
        END IF;
    END LOOP;
    RETURN true;
END $$;

-- Lock what the operations of a batch settle or change, in the one order: promises, then tasks. An operation lists the
-- promises that it may settle, or time out, as "promise_ids", and the tasks that it may change as "task_ids".
CREATE OR REPLACE FUNCTION signoff.lock_tasks(p_operations jsonb, p_now double precision) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    settled record;
BEGIN
    SELECT array_agg(promise.namespace) AS namespaces, array_agg(promise.id) AS ids INTO settled
    FROM (
        SELECT signoff.shard_of(id) COLLATE "C" AS shard, namespace COLLATE "C" AS namespace, id COLLATE "C" AS id,
            bool_or(settles) AS settles
        FROM (
            SELECT op ->> 'namespace' AS namespace, op ->> 'promise_id' AS id, true AS settles
            FROM jsonb_array_elements(p_operations) AS op
            WHERE op ->> 'op' IN ('settle', 'amend', 'settle_held')
            UNION ALL
            SELECT op ->> 'namespace', id, false
            FROM jsonb_array_elements(p_operations) AS op,
                jsonb_array_elements_text(op -> 'promise_ids') AS id
            UNION ALL
            SELECT op ->> 'namespace', id, true
            FROM jsonb_array_elements(p_operations) AS op,
                jsonb_array_elements_text(op #> '{write,closes}') AS id
        ) AS named
        GROUP BY 1, 2, 3
        ORDER BY 1, 2, 3
    ) AS listed
    CROSS JOIN LATERAL (
        SELECT namespace, id, settled_at, due_at FROM signoff.promises
        WHERE shard = listed.shard AND namespace = listed.namespace AND id = listed.id
        OFFSET 0  -- else the condition below would be applied first, and settled promises be locked later, in any order
        FOR NO KEY UPDATE
    ) AS promise
    WHERE promise.settled_at IS NULL AND (listed.settles OR promise.due_at <= p_now);
    PERFORM FROM (
        SELECT DISTINCT found.shard COLLATE "C" AS shard, found.namespace COLLATE "C" AS namespace,
            found.id COLLATE "C" AS id
        FROM (
            SELECT shard, namespace, id FROM signoff.tasks_of(settled.namespaces, settled.ids)
            UNION ALL
            SELECT signoff.shard_of(id), op ->> 'namespace', id
            FROM jsonb_array_elements(p_operations) AS op, jsonb_array_elements_text(op -> 'task_ids') AS id
        ) AS found
        ORDER BY 1, 2, 3
    ) AS listed
    CROSS JOIN LATERAL (
        SELECT FROM signoff.tasks
        WHERE shard = listed.shard AND namespace = listed.namespace AND id = listed.id
        FOR NO KEY UPDATE
    ) AS task;
END $$;

-- Give up the lease of a task, if it has one. A task that becomes pending is sent at once, to `p_address` if it is given.
CREATE OR REPLACE FUNCTION signoff.move_task(
    p_namespace text, p_id text, p_state text, p_now double precision, p_resumes text[] DEFAULT NULL,
    p_address text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE signoff.tasks
    SET state = p_state, pid = NULL, ttl = NULL, lease_until = NULL, resumes = coalesce(p_resumes, resumes),
        send_at = CASE p_state WHEN 'pending' THEN p_now END, target = coalesce(p_address, target),
        queue = coalesce(signoff.queue_of(p_address), queue)
    WHERE shard = signoff.shard_of(p_id) AND namespace = p_namespace AND id = p_id;
    PERFORM signoff.note_task_due();
END $$;

-- Note a settled promise for the next acquisition of a task.
CREATE OR REPLACE FUNCTION signoff.add_resume(p_task signoff.tasks, p_promise_id text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE signoff.tasks SET resumes = resumes || p_promise_id
    WHERE shard = p_task.shard AND namespace = p_task.namespace AND id = p_task.id
        AND p_promise_id <> ALL (resumes);
END $$;

-- Fulfil the task of a settled promise, resume those that await it, and send it to its listeners. The caller has the
-- promise locked.
CREATE OR REPLACE FUNCTION signoff.settle_tasks(p_promise signoff.promises, p_now double precision) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_shard constant text := p_promise.shard;
    v_namespace constant text := p_promise.namespace;
    v_id constant text := p_promise.id;
    awaiting record;
    task signoff.tasks;
BEGIN
    IF NOT EXISTS (SELECT FROM signoff.tasks WHERE shard = v_shard AND namespace = v_namespace AND id = v_id)
        AND NOT EXISTS (
            SELECT FROM signoff.task_awaits WHERE shard = v_shard AND namespace = v_namespace AND awaited = v_id
        )
        AND NOT EXISTS (
            SELECT FROM signoff.promise_listeners
            WHERE shard = v_shard AND namespace = v_namespace AND promise_id = v_id
        )
    THEN
        RETURN;
    END IF;
    PERFORM signoff.lock_tasks_of(ARRAY[v_namespace], ARRAY[v_id]);
    UPDATE signoff.tasks
    SET state = 'fulfilled', pid = NULL, ttl = NULL, lease_until = NULL, send_at = NULL, resumes = '{}'
    WHERE shard = v_shard AND namespace = v_namespace AND id = v_id AND state <> 'fulfilled';
    IF FOUND THEN
        DELETE FROM signoff.task_awaits WHERE awaiter = v_id AND namespace = v_namespace;
    END IF;
    FOR awaiting IN
        DELETE FROM signoff.task_awaits WHERE shard = v_shard AND namespace = v_namespace AND awaited = v_id
        RETURNING awaiter, address
    LOOP
        SELECT * INTO task FROM signoff.tasks
        WHERE shard = signoff.shard_of(awaiting.awaiter) AND namespace = v_namespace AND id = awaiting.awaiter;
        CONTINUE WHEN NOT FOUND OR task.state = 'fulfilled' OR EXISTS (
            SELECT FROM signoff.promises
            WHERE shard = task.shard AND namespace = v_namespace AND id = task.id AND due_at <= p_now
        );
        IF task.state = 'suspended' THEN
            PERFORM signoff.move_task(v_namespace, task.id, 'pending', p_now, ARRAY[v_id], awaiting.address);
        ELSE
            PERFORM signoff.add_resume(task, v_id);
        END IF;
    END LOOP;
    UPDATE signoff.promise_listeners SET send_at = p_now
    WHERE shard = v_shard AND namespace = v_namespace AND promise_id = v_id AND send_at IS NULL;
    IF FOUND THEN
        PERFORM signoff.note_task_due();
    END IF;
END $$;

-- Time out those of these promises that are pending past their deadline. Returns the runs that were woken.
CREATE OR REPLACE FUNCTION signoff.time_out_late(p_namespace text, p_ids jsonb, p_now double precision) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_id text;
    promise signoff.promises;
    woken text[] := '{}';
BEGIN
    FOR v_id IN SELECT DISTINCT id COLLATE "C" FROM jsonb_array_elements_text(p_ids) AS id ORDER BY 1 LOOP
        UPDATE signoff.promises SET state = 'timed_out', settled_at = p_now, origin = '{"way":"timer"}'
        WHERE shard = signoff.shard_of(v_id) AND namespace = p_namespace AND id = v_id AND settled_at IS NULL
            AND due_at <= p_now
        RETURNING * INTO promise;
        IF FOUND THEN
            woken := woken || signoff.tell_all(promise, p_now);
        END IF;
    END LOOP;
    RETURN woken;
END $$;

-- A task, locked.
CREATE OR REPLACE FUNCTION signoff.lock_task(p_namespace text, p_id text) RETURNS SETOF signoff.tasks
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        SELECT * FROM signoff.tasks
        WHERE shard = signoff.shard_of(p_id) AND namespace = p_namespace AND id = p_id
        FOR NO KEY UPDATE;
END $$;

-- The refusal of an operation on a task that is not acquired in this version; NULL if it is.
CREATE OR REPLACE FUNCTION signoff.refuse_unless_held(p_namespace text, p_id text, p_version numeric) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    task signoff.tasks;
BEGIN
    SELECT * INTO task FROM signoff.lock_task(p_namespace, p_id);
    IF NOT FOUND THEN
        RETURN jsonb_build_object('missing', jsonb_build_array('task', p_id));
    END IF;
    IF task.state <> 'acquired' OR task.version <> p_version THEN
        RETURN jsonb_build_object('conflict', signoff.task_values(task));
    END IF;
    RETURN NULL;
END $$;

-- Lease a task to a process. Its version rises.
CREATE OR REPLACE FUNCTION signoff.lease_task(
    p_task signoff.tasks, p_lease jsonb, p_resumes text[], p_lease_now double precision
) RETURNS signoff.tasks
LANGUAGE plpgsql AS $$
DECLARE
    task signoff.tasks;
BEGIN
    UPDATE signoff.tasks
    SET state = 'acquired', version = version + 1, pid = p_lease ->> 'pid', ttl = (p_lease ->> 'ttl')::bigint,
        resumes = p_resumes, send_at = NULL,
        lease_until = p_lease_now + (p_lease ->> 'ttl')::double precision / 1000
    WHERE shard = p_task.shard AND namespace = p_task.namespace AND id = p_task.id
    RETURNING * INTO task;
    PERFORM signoff.note_task_due();
    RETURN task;
END $$;

-- Create a promise with its task, or find those with its id, and acquire the task if a lease is given.
CREATE OR REPLACE FUNCTION signoff.open_invocation(p_op jsonb, p_now double precision, p_lease_now double precision)
RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_id constant text := p_op #>> '{new,id}';
    v_shard constant text := signoff.shard_of(v_id);
    lease jsonb := p_op -> 'lease';
    woken text[] := signoff.time_out_late(v_namespace, p_op -> 'promise_ids', p_now);
    refusal jsonb;
    promise signoff.promises;
    task signoff.tasks;
    acquired signoff.tasks;
BEGIN
    IF p_op ? 'holder' THEN
        refusal := signoff.refuse_unless_held(
            v_namespace, p_op #>> '{holder,id}', (p_op #>> '{holder,version}')::numeric
        );
        IF refusal IS NOT NULL THEN
            RETURN refusal || jsonb_build_object('woken', woken);
        END IF;
    END IF;
    SELECT * INTO promise FROM signoff.create_promise_row(v_namespace, NULL, p_op -> 'new', NULL, p_now);
    IF NOT FOUND THEN
        SELECT * INTO promise FROM signoff.promises
        WHERE shard = v_shard AND namespace = v_namespace AND id = v_id
        FOR NO KEY UPDATE;
        IF NOT FOUND THEN  -- it was deleted just now
            RETURN signoff.open_invocation(p_op, p_now, p_lease_now);
        END IF;
        IF promise.kind <> p_op #>> '{new,kind}' OR promise.run_id IS NOT NULL THEN
            RETURN jsonb_build_object('promise', signoff.promise_values(promise), 'woken', woken);
        END IF;
        SELECT * INTO task FROM signoff.lock_task(v_namespace, v_id);
        IF NOT FOUND THEN
            RETURN jsonb_build_object('promise', signoff.promise_values(promise), 'woken', woken);
        END IF;
        IF lease IS NULL OR task.state = 'fulfilled' THEN
            RETURN jsonb_build_object(
                'promise', signoff.promise_values(promise), 'task', signoff.task_values(task), 'woken', woken
            );
        END IF;
        IF task.state <> 'pending' THEN
            RETURN jsonb_build_object('conflict', signoff.task_values(task), 'woken', woken);
        END IF;
        acquired := signoff.lease_task(task, lease, '{}', p_lease_now);
        RETURN jsonb_build_object(
            'promise', signoff.promise_values(promise), 'task', signoff.task_values(acquired),
            'resumes', task.resumes, 'woken', woken
        );
    END IF;
    IF p_op ? 'branches' THEN
        INSERT INTO signoff.promise_branches (shard, namespace, promise_id, branch)
        SELECT v_shard, v_namespace, v_id, branch FROM jsonb_array_elements_text(p_op -> 'branches') AS branch
        ON CONFLICT DO NOTHING;
    END IF;
    IF promise.due_at <= p_now THEN
        lease := NULL;
    END IF;
    IF p_op ? 'target' THEN
        INSERT INTO signoff.tasks (
            shard, namespace, id, state, version, target, queue, pid, ttl, send_at, lease_until
        ) VALUES (
            v_shard, v_namespace, v_id, CASE WHEN lease IS NULL THEN 'pending' ELSE 'acquired' END,
            CASE WHEN lease IS NULL THEN 0 ELSE 1 END, p_op ->> 'target', signoff.queue_of(p_op ->> 'target'),
            lease ->> 'pid', (lease ->> 'ttl')::bigint,
            CASE WHEN lease IS NULL THEN coalesce((p_op ->> 'send_at')::double precision, p_now) END,
            p_lease_now + (lease ->> 'ttl')::double precision / 1000
        );
        PERFORM signoff.note_task_due();
    END IF;
    IF promise.due_at <= p_now THEN
        woken := woken || signoff.time_out_late(v_namespace, jsonb_build_array(v_id), p_now);
        SELECT * INTO promise FROM signoff.promises
        WHERE shard = v_shard AND namespace = v_namespace AND id = v_id;
    END IF;
    SELECT * INTO task FROM signoff.tasks WHERE shard = v_shard AND namespace = v_namespace AND id = v_id;
    RETURN jsonb_build_object('promise', signoff.promise_values(promise), 'new', true, 'woken', woken) || CASE
        WHEN task.id IS NOT NULL THEN jsonb_build_object('task', signoff.task_values(task)) ELSE '{}'
    END;
END $$;

-- Settle a promise in the name of an acquired task.
CREATE OR REPLACE FUNCTION signoff.settle_held(p_op jsonb, p_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_id constant text := p_op ->> 'promise_id';
    woken constant jsonb := to_jsonb(signoff.time_out_late(v_namespace, p_op -> 'promise_ids', p_now));
    refusal constant jsonb := signoff.refuse_unless_held(
        v_namespace, p_op ->> 'task_id', (p_op ->> 'version')::numeric
    );
    promise signoff.promises;
    settled jsonb;
BEGIN
    IF refusal IS NOT NULL THEN
        RETURN refusal || jsonb_build_object('woken', woken);
    END IF;
    SELECT * INTO promise FROM signoff.promises
    WHERE shard = signoff.shard_of(v_id) AND namespace = v_namespace AND id = v_id
    FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN jsonb_build_object('missing', jsonb_build_array('promise', v_id), 'woken', woken);
    END IF;
    IF promise.state <> 'pending' THEN
        RETURN jsonb_build_object('promise', signoff.promise_values(promise), 'woken', woken);
    END IF;
    settled := signoff.settle(v_namespace, v_id, promise.kind, p_op -> 'settlement', NULL, p_now);
    IF settled ? 'conflict' THEN  -- of a request id
        settled := jsonb_build_object('used', settled -> 'conflict');
    END IF;
    RETURN settled || jsonb_build_object('woken', woken || coalesce(settled -> 'woken', '[]'));
END $$;

-- Acquire a pending task.
CREATE OR REPLACE FUNCTION signoff.acquire_task(p_op jsonb, p_now double precision, p_lease_now double precision)
RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_id constant text := p_op ->> 'task_id';
    woken constant text[] := signoff.time_out_late(v_namespace, p_op -> 'promise_ids', p_now);
    taken integer;
    task signoff.tasks;
    acquired signoff.tasks;
BEGIN
    SELECT * INTO task FROM signoff.lock_task(v_namespace, v_id);
    IF NOT FOUND THEN
        RETURN jsonb_build_object('missing', jsonb_build_array('task', v_id), 'woken', woken);
    END IF;
    IF task.state <> 'pending' OR task.version <> (p_op ->> 'version')::numeric THEN
        RETURN jsonb_build_object('conflict', signoff.task_values(task), 'woken', woken);
    END IF;
    taken := CASE WHEN (p_op -> 'takes_one')::boolean THEN 1 ELSE cardinality(task.resumes) END;
    acquired := signoff.lease_task(task, p_op -> 'lease', task.resumes[taken + 1:], p_lease_now);
    RETURN jsonb_build_object(
        'promise', (
            SELECT signoff.promise_values(promises) FROM signoff.promises
            WHERE shard = task.shard AND namespace = v_namespace AND id = v_id
        ),
        'task', signoff.task_values(acquired), 'resumes', task.resumes[:taken], 'woken', woken
    );
END $$;

-- Give an acquired task back.
CREATE OR REPLACE FUNCTION signoff.release_task(p_op jsonb, p_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    woken constant jsonb := jsonb_build_object(
        'woken', signoff.time_out_late(v_namespace, p_op -> 'promise_ids', p_now)
    );
    refusal constant jsonb := signoff.refuse_unless_held(
        v_namespace, p_op ->> 'task_id', (p_op ->> 'version')::numeric
    );
BEGIN
    IF refusal IS NOT NULL THEN
        RETURN refusal || woken;
    END IF;
    PERFORM signoff.move_task(v_namespace, p_op ->> 'task_id', 'pending', p_now);
    RETURN woken;
END $$;

-- Suspend an acquired task until one of the awaited promises is settled. "invalid" is the id of one that does not exist.
CREATE OR REPLACE FUNCTION signoff.suspend_task(p_op jsonb, p_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_id constant text := p_op ->> 'task_id';
    woken constant jsonb := jsonb_build_object(
        'woken', signoff.time_out_late(v_namespace, p_op -> 'promise_ids', p_now)
    );
    refusal constant jsonb := signoff.refuse_unless_held(v_namespace, v_id, (p_op ->> 'version')::numeric);
    v_awaited text;
    v_state text;
    is_settled boolean := false;
    resumed boolean;
BEGIN
    IF refusal IS NOT NULL THEN
        RETURN refusal || woken;
    END IF;
    IF jsonb_array_length(p_op -> 'awaited') = 0 THEN
        SELECT resumes <> '{}' INTO resumed FROM signoff.tasks
        WHERE shard = signoff.shard_of(v_id) AND namespace = v_namespace AND id = v_id;
        PERFORM signoff.move_task(v_namespace, v_id, CASE WHEN resumed THEN 'pending' ELSE 'suspended' END, p_now);
        RETURN woken || jsonb_build_object('suspended', NOT resumed);
    END IF;
    FOR v_awaited IN SELECT DISTINCT id COLLATE "C" FROM jsonb_array_elements_text(p_op -> 'awaited') AS id ORDER BY 1 LOOP
        SELECT state INTO v_state FROM signoff.promises
        WHERE shard = signoff.shard_of(v_awaited) AND namespace = v_namespace AND id = v_awaited
        FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            RETURN woken || jsonb_build_object('invalid', v_awaited);
        END IF;
        is_settled := is_settled OR v_state <> 'pending';
    END LOOP;
    IF is_settled THEN
        UPDATE signoff.tasks SET resumes = '{}'
        WHERE shard = signoff.shard_of(v_id) AND namespace = v_namespace AND id = v_id AND resumes <> '{}';
        RETURN woken || '{"suspended": false}';
    END IF;
    INSERT INTO signoff.task_awaits (shard, namespace, awaited, awaiter)
    SELECT signoff.shard_of(id), v_namespace, id, v_id FROM jsonb_array_elements_text(p_op -> 'awaited') AS id
    ON CONFLICT DO NOTHING;
    PERFORM signoff.move_task(v_namespace, v_id, 'suspended', p_now, '{}');
    RETURN woken || '{"suspended": true}';
END $$;

-- Stop a task until it is continued, unless it is fulfilled.
CREATE OR REPLACE FUNCTION signoff.halt_task(p_op jsonb, p_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_id constant text := p_op ->> 'task_id';
    woken constant jsonb := jsonb_build_object(
        'woken', signoff.time_out_late(v_namespace, p_op -> 'promise_ids', p_now)
    );
    task signoff.tasks;
BEGIN
    SELECT * INTO task FROM signoff.lock_task(v_namespace, v_id);
    IF NOT FOUND THEN
        RETURN woken || jsonb_build_object('missing', jsonb_build_array('task', v_id));
    END IF;
    IF task.state = 'fulfilled' THEN
        RETURN woken || jsonb_build_object('conflict', signoff.task_values(task));
    END IF;
    IF task.state <> 'halted' THEN
        PERFORM signoff.move_task(v_namespace, v_id, 'halted', p_now);
    END IF;
    RETURN woken;
END $$;

-- Send a halted task again.
CREATE OR REPLACE FUNCTION signoff.continue_task(p_op jsonb, p_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_id constant text := p_op ->> 'task_id';
    woken constant jsonb := jsonb_build_object(
        'woken', signoff.time_out_late(v_namespace, p_op -> 'promise_ids', p_now)
    );
    task signoff.tasks;
BEGIN
    SELECT * INTO task FROM signoff.lock_task(v_namespace, v_id);
    IF NOT FOUND THEN
        RETURN woken || jsonb_build_object('missing', jsonb_build_array('task', v_id));
    END IF;
    IF task.state <> 'halted' THEN
        RETURN woken || jsonb_build_object('conflict', signoff.task_values(task));
    END IF;
    PERFORM signoff.move_task(v_namespace, v_id, 'pending', p_now);
    RETURN woken;
END $$;

-- Resume a task once a promise is settled. "invalid" is the id of the awaiter, if it has no task.
CREATE OR REPLACE FUNCTION signoff.await_promise(p_op jsonb, p_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_id constant text := p_op ->> 'task_id';
    v_awaited constant text := p_op ->> 'awaited';
    v_address constant text := p_op ->> 'address';
    woken constant text[] := signoff.time_out_late(v_namespace, p_op -> 'promise_ids', p_now);
    promise signoff.promises;
    awaiter signoff.promises;
    task signoff.tasks;
    reply jsonb;
BEGIN
    SELECT * INTO promise FROM signoff.promises
    WHERE shard = signoff.shard_of(v_awaited) AND namespace = v_namespace AND id = v_awaited
    FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN jsonb_build_object('missing', jsonb_build_array('promise', v_awaited), 'woken', woken);
    END IF;
    reply := jsonb_build_object('promise', signoff.promise_values(promise), 'woken', woken);
    SELECT * INTO task FROM signoff.lock_task(v_namespace, v_id);
    IF NOT FOUND THEN
        SELECT * INTO awaiter FROM signoff.promises
        WHERE shard = signoff.shard_of(v_id) AND namespace = v_namespace AND id = v_id;
        IF NOT FOUND OR v_address IS NULL THEN
            RETURN reply || jsonb_build_object('invalid', v_id);
        END IF;
        IF awaiter.state <> 'pending' THEN
            RETURN reply;
        END IF;
        INSERT INTO signoff.tasks (shard, namespace, id, state, target, queue)
        VALUES (awaiter.shard, v_namespace, v_id, 'suspended', v_address, signoff.queue_of(v_address))
        RETURNING * INTO task;
    END IF;
    IF task.state = 'fulfilled' THEN
        RETURN reply;
    END IF;
    IF promise.state = 'pending' THEN
        INSERT INTO signoff.task_awaits (shard, namespace, awaited, awaiter, address)
        VALUES (promise.shard, v_namespace, v_awaited, v_id, v_address)
        ON CONFLICT DO NOTHING;
    ELSIF task.state = 'suspended' THEN
        PERFORM signoff.move_task(v_namespace, v_id, 'pending', p_now, NULL, v_address);
    ELSIF task.state <> 'halted' THEN
        PERFORM signoff.add_resume(task, v_awaited);
    END IF;
    RETURN reply;
END $$;

-- Send a promise to an address once it is settled.
CREATE OR REPLACE FUNCTION signoff.listen_promise(p_op jsonb, p_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_id constant text := p_op #>> '{promise_ids,0}';
    v_address constant text := p_op ->> 'address';
    woken constant text[] := signoff.time_out_late(v_namespace, p_op -> 'promise_ids', p_now);
    promise signoff.promises;
BEGIN
    SELECT * INTO promise FROM signoff.promises
    WHERE shard = signoff.shard_of(v_id) AND namespace = v_namespace AND id = v_id
    FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN jsonb_build_object('missing', jsonb_build_array('promise', v_id), 'woken', woken);
    END IF;
    IF promise.state = 'pending' THEN
        INSERT INTO signoff.promise_listeners (shard, namespace, promise_id, address, queue)
        VALUES (promise.shard, v_namespace, v_id, v_address, signoff.queue_of(v_address))
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN jsonb_build_object('promise', signoff.promise_values(promise), 'woken', woken);
END $$;

-- One operation on tasks. See signoff.operate.
CREATE OR REPLACE FUNCTION signoff.operate_on_task(p_op jsonb, p_now double precision, p_lease_now double precision)
RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
    CASE p_op ->> 'op'
    WHEN 'open_invocation' THEN
        RETURN signoff.open_invocation(p_op, p_now, p_lease_now);
    WHEN 'settle_held' THEN
        RETURN signoff.settle_held(p_op, p_now);
    WHEN 'acquire_task' THEN
        RETURN signoff.acquire_task(p_op, p_now, p_lease_now);
    WHEN 'release_task' THEN
        RETURN signoff.release_task(p_op, p_now);
    WHEN 'suspend_task' THEN
        RETURN signoff.suspend_task(p_op, p_now);
    WHEN 'halt_task' THEN
        RETURN signoff.halt_task(p_op, p_now);
    WHEN 'continue_task' THEN
        RETURN signoff.continue_task(p_op, p_now);
    WHEN 'await_promise' THEN
        RETURN signoff.await_promise(p_op, p_now);
    WHEN 'listen_promise' THEN
        RETURN signoff.listen_promise(p_op, p_now);
    END CASE;
END $$;

-- Extend the leases of tasks that a process holds. Without ids, of all. Returns their number.
CREATE OR REPLACE FUNCTION signoff.heartbeat_tasks(
    p_namespace text, p_pid text, p_ids text[], p_versions numeric[], p_lease_now double precision
) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_lease_now constant double precision := coalesce(p_lease_now, extract(epoch FROM clock_timestamp()));
    held signoff.tasks;
    extended integer := 0;
BEGIN
    IF p_ids IS NULL THEN
        p_ids := ARRAY(
            SELECT id FROM signoff.tasks WHERE pid = p_pid AND pid IS NOT NULL AND namespace = p_namespace
        );
    END IF;
    FOR held IN
        SELECT task.* FROM (
            SELECT DISTINCT signoff.shard_of(id) COLLATE "C" AS shard, id COLLATE "C" AS id, version
            FROM unnest(p_ids, p_versions) AS listed (id, version)
            ORDER BY 1, 2
        ) AS listed
        CROSS JOIN LATERAL (
            SELECT * FROM signoff.tasks
            WHERE shard = listed.shard AND namespace = p_namespace AND id = listed.id
            FOR NO KEY UPDATE
        ) AS task
        WHERE task.pid = p_pid AND task.state = 'acquired' AND task.version = coalesce(listed.version, task.version)
    LOOP
        UPDATE signoff.tasks SET lease_until = v_lease_now + ttl / 1000.0
        WHERE shard = held.shard AND namespace = p_namespace AND id = held.id;
        extended := extended + 1;
    END LOOP;
    RETURN extended;
END $$;
CALL signoff.plan_by_index('signoff.heartbeat_tasks');

-- Take due messages of these queues: [address, task, NULL] or [address, NULL, promise]. Each is due again later. Those that
-- another process takes just now are left to it. It ends after 4 MiB of payloads, as PAGE_BYTES in listed_payloads.py.
CREATE OR REPLACE FUNCTION signoff.take_task_messages(
    p_namespace text, p_queues text[], p_limit integer, p_now double precision, p_resend double precision
) RETURNS SETOF jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_now constant double precision := coalesce(p_now, extract(epoch FROM clock_timestamp()));
    v_queue text;
    v_bytes integer := 0;
    due record;
    task signoff.tasks;
    promise signoff.promises;
BEGIN
    FOREACH v_queue IN ARRAY p_queues LOOP
        FOR due IN
            SELECT shard, id FROM signoff.tasks
            WHERE queue = v_queue AND namespace = p_namespace AND state = 'pending' AND send_at <= v_now
            ORDER BY send_at LIMIT p_limit
            FOR NO KEY UPDATE SKIP LOCKED
        LOOP
            UPDATE signoff.tasks SET send_at = v_now + p_resend
            WHERE shard = due.shard AND namespace = p_namespace AND id = due.id
            RETURNING * INTO task;
            p_limit := p_limit - 1;
            RETURN NEXT jsonb_build_array(task.target, signoff.task_values(task), NULL);
        END LOOP;
        FOR due IN
            SELECT shard, promise_id, address FROM signoff.promise_listeners
            WHERE queue = v_queue AND namespace = p_namespace AND send_at IS NOT NULL AND send_at <= v_now
            ORDER BY send_at LIMIT p_limit
            FOR NO KEY UPDATE SKIP LOCKED
        LOOP
            UPDATE signoff.promise_listeners SET send_at = v_now + p_resend
            WHERE shard = due.shard AND namespace = p_namespace AND promise_id = due.promise_id
                AND address = due.address;
            SELECT * INTO promise FROM signoff.promises
            WHERE shard = due.shard AND namespace = p_namespace AND id = due.promise_id;
            p_limit := p_limit - 1;
            RETURN NEXT jsonb_build_array(due.address, NULL, signoff.promise_values(promise));
            v_bytes := v_bytes + coalesce(octet_length(promise.data), 0) + coalesce(octet_length(promise.value), 0);
            IF v_bytes >= 4 * 1024 * 1024 THEN
                RETURN;
            END IF;
        END LOOP;
    END LOOP;
END $$;
CALL signoff.plan_by_index('signoff.take_task_messages');

-- Make acquired tasks pending whose leases expired, in all namespaces. Those that another transaction has locked are left.
-- Returns their number.
CREATE OR REPLACE FUNCTION signoff.free_tasks(p_now double precision, p_lease_now double precision, p_limit integer)
RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    lost record;
    freed integer := 0;
BEGIN
    FOR lost IN
        SELECT namespace, id FROM signoff.tasks
        WHERE lease_until IS NOT NULL AND lease_until <= p_lease_now
        ORDER BY lease_until LIMIT p_limit
        FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        PERFORM signoff.move_task(lost.namespace, lost.id, 'pending', p_now);
        freed := freed + 1;
    END LOOP;
    RETURN freed;
END $$;
