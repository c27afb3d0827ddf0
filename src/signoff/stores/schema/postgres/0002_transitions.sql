-- Every transition of a run's state; nothing else writes runs.state. The table of transitions is in stores/contract/store.py.
-- A run is running exactly if it has `lease_until` and `worker_id`; paused, if it has `wake_at`; failed, if `retryable`:
-- conditions say it by these, so that no index of states is taken for one that leads to a run.

-- -> ready, or paused until it may start. Returns whether the id was free.
CREATE FUNCTION signoff.create_row(p_namespace text, p_run jsonb, p_token text, p_now double precision) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_slots text;
    run signoff.runs;
BEGIN
    INSERT INTO signoff.runs (
        id, namespace, workflow, group_name, state, created_at, ready_at, wake_at, parent_id, parent_n,
        deadline_at, priority, start_at, concurrency_key, concurrency_limit, slots, arguments, arguments_digest,
        create_token, traceparent, started_by
    )
    SELECT id, p_namespace, workflow, group_name, CASE WHEN start_at > p_now THEN 'paused' ELSE 'ready' END,
        p_now, p_now, CASE WHEN start_at > p_now THEN start_at END, parent_id, parent_n,
        deadline_at, priority, start_at, concurrency_key, concurrency_limit,
        CASE WHEN concurrency_key IS NOT NULL THEN
            signoff.slots_of(p_namespace, group_name, workflow, concurrency_key)
        END,
        arguments, arguments_digest, p_token, traceparent, started_by
    FROM jsonb_to_record(p_run) AS new (
        id text, workflow text, group_name text, parent_id text, parent_n integer, deadline_at double precision,
        priority integer, start_at double precision, concurrency_key text, concurrency_limit integer, arguments text,
        arguments_digest text, traceparent text, started_by text
    )
    ON CONFLICT (id, namespace) DO NOTHING
    RETURNING slots INTO v_slots;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF v_slots IS NOT NULL THEN
        SELECT * INTO run FROM signoff.runs WHERE id = p_run ->> 'id' AND namespace = p_namespace;
        PERFORM signoff.line_up(run);
    END IF;
    RETURN true;
END $$;

-- ready -> running: what signoff.choose has chosen, and locked.
CREATE FUNCTION signoff.claim_rows(
    p_namespace text, p_ids text[], p_worker_id text, p_token text, p_lease_until double precision
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE signoff.runs AS runs
    SET state = 'running', epoch = epoch + 1, worker_id = p_worker_id, lease_until = p_lease_until,
        claim_token = p_token
    FROM (SELECT id, p_namespace AS namespace FROM unnest(p_ids) AS id OFFSET 0) AS chosen  -- each by its whole key
    WHERE runs.id = chosen.id AND runs.namespace = chosen.namespace;
END $$;

-- running -> paused, unless something came since `wakes` was read.
CREATE FUNCTION signoff.pause_row(
    p_namespace text, p_run_id text, p_epoch integer, p_wakes integer, p_wake_at double precision
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_group text;
    v_slots text;
BEGIN
    UPDATE signoff.runs
    SET state = 'paused', wake_at = p_wake_at, worker_id = NULL, lease_until = NULL
    WHERE id = p_run_id AND namespace = p_namespace AND epoch = p_epoch AND wakes = p_wakes
        AND lease_until IS NOT NULL
    RETURNING group_name, slots INTO v_group, v_slots;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM signoff.slot_freed(p_namespace, v_group, v_slots);
    RETURN true;
END $$;

-- paused -> ready, when something came; but a delayed run (epoch 0) only collects what comes.
-- A run that failed retryably is kept whole: it goes on collecting, too.
-- Returns the run's `wakes` now; NULL if it has ended. Has workers told of a run that is ready.
CREATE FUNCTION signoff.wake_row(p_namespace text, p_run_id text, p_now double precision) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_wakes integer;
    v_state text;
    v_slots text;
    v_blocked boolean;
    run signoff.runs;
BEGIN
    UPDATE signoff.runs
    SET wakes = wakes + 1,
        state = CASE WHEN state = 'paused' AND epoch > 0 THEN 'ready' ELSE state END,
        ready_at = CASE WHEN state = 'paused' AND epoch > 0 THEN p_now ELSE ready_at END,
        wake_at = CASE WHEN epoch > 0 THEN NULL ELSE wake_at END
    WHERE id = p_run_id AND namespace = p_namespace AND (ended_at IS NULL OR retryable)
    RETURNING wakes, state, slots, blocked INTO v_wakes, v_state, v_slots, v_blocked;
    IF v_slots IS NOT NULL AND NOT v_blocked THEN
        SELECT * INTO run FROM signoff.runs WHERE id = p_run_id AND namespace = p_namespace;
        v_blocked := signoff.line_up(run);
    END IF;
    IF v_state = 'ready' AND NOT v_blocked THEN
        PERFORM signoff.tell_workers();
    END IF;
    RETURN v_wakes;
END $$;

-- paused -> ready, when their timers are due, or delayed ones may start. What another process serves just now is passed over.
CREATE FUNCTION signoff.wake_timers(p_now double precision, p_limit integer) RETURNS TABLE (namespace text, id text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    run signoff.runs;
BEGIN
    FOR run IN
        UPDATE signoff.runs AS runs
        SET state = 'ready', ready_at = p_now, wake_at = NULL
        FROM (
            SELECT id, namespace FROM signoff.runs
            WHERE wake_at IS NOT NULL AND wake_at <= p_now AND signoff.try_lock_slots(slots)
            ORDER BY wake_at LIMIT p_limit
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS due
        WHERE runs.id = due.id AND runs.namespace = due.namespace
        RETURNING runs.*
    LOOP
        PERFORM signoff.line_up(run);
        RETURN QUERY SELECT run.namespace, run.id;
    END LOOP;
END $$;

-- running -> ready, when the lease ran out.
CREATE FUNCTION signoff.free_lost(p_now double precision, p_lease_now double precision, p_limit integer)
RETURNS TABLE (namespace text, id text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    run signoff.runs;
BEGIN
    FOR run IN
        UPDATE signoff.runs AS runs
        SET state = 'ready', ready_at = p_now, worker_id = NULL, lease_until = NULL
        FROM (
            SELECT id, namespace FROM signoff.runs
            WHERE worker_id IS NOT NULL AND lease_until <= p_lease_now
                AND signoff.try_lock_slots(slots)
            ORDER BY lease_until LIMIT p_limit
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS lost
        WHERE runs.id = lost.id AND runs.namespace = lost.namespace
        RETURNING runs.*
    LOOP
        PERFORM signoff.slot_freed(run.namespace, run.group_name, run.slots);
        RETURN QUERY SELECT run.namespace, run.id;
    END LOOP;
END $$;

-- running -> ready, when the worker lets go.
CREATE FUNCTION signoff.release_rows(p_worker_id text, p_now double precision) RETURNS TABLE (namespace text, id text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    run signoff.runs;
BEGIN
    PERFORM signoff.lock_slots(slots) FROM (
        SELECT DISTINCT slots FROM signoff.runs WHERE worker_id = p_worker_id AND slots IS NOT NULL ORDER BY slots
    ) AS held;
    FOR run IN
        UPDATE signoff.runs AS runs
        SET state = 'ready', ready_at = p_now, worker_id = NULL, lease_until = NULL
        FROM (
            SELECT id, namespace FROM signoff.runs
            WHERE worker_id = p_worker_id
            ORDER BY id, namespace
            FOR NO KEY UPDATE
        ) AS held
        WHERE runs.id = held.id AND runs.namespace = held.namespace
        RETURNING runs.*
    LOOP
        PERFORM signoff.slot_freed(run.namespace, run.group_name, run.slots);
        RETURN QUERY SELECT run.namespace, run.id;
    END LOOP;
END $$;

-- running -> succeeded | failed | cancelled
CREATE FUNCTION signoff.end_row(
    p_namespace text, p_run_id text, p_epoch integer, p_outcome jsonb, p_now double precision
) RETURNS signoff.runs
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
BEGIN
    UPDATE signoff.runs
    SET state = p_outcome ->> 'state', result = p_outcome ->> 'result', error = p_outcome ->> 'error',
        retryable = coalesce((p_outcome ->> 'retryable')::boolean, false), ended_at = p_now,
        worker_id = NULL, lease_until = NULL
    WHERE id = p_run_id AND namespace = p_namespace AND epoch = p_epoch AND lease_until IS NOT NULL
    RETURNING * INTO STRICT run;  -- the caller has it locked, and has seen that it is running
    PERFORM signoff.slot_freed(p_namespace, run.group_name, run.slots);
    RETURN run;
END $$;

-- ready or paused, never started -> cancelled; failed, retryable -> cancelled: no code is left that could clean up.
CREATE FUNCTION signoff.cancel_row(p_namespace text, p_run_id text, p_error text, p_now double precision)
RETURNS SETOF signoff.runs
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
BEGIN
    UPDATE signoff.runs
    SET state = 'cancelled', retryable = false, error = p_error, ended_at = p_now, wake_at = NULL, blocked = false
    WHERE id = p_run_id AND namespace = p_namespace
        AND (epoch = 0 AND ended_at IS NULL OR state = 'failed' AND retryable)
    RETURNING * INTO run;
    IF FOUND THEN
        IF run.slots IS NOT NULL THEN
            PERFORM signoff.slot_freed(run.namespace, run.group_name, run.slots);
        END IF;
        RETURN NEXT run;
    END IF;
END $$;

-- failed, retryable -> ready
CREATE FUNCTION signoff.retry_row(p_namespace text, p_run_id text, p_now double precision) RETURNS SETOF signoff.runs
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        UPDATE signoff.runs
        SET state = 'ready', ready_at = p_now, retryable = false, ended_at = NULL, error = NULL
        WHERE id = p_run_id AND namespace = p_namespace AND retryable
        RETURNING *;
END $$;
