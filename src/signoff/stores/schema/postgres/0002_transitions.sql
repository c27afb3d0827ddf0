-- Every transition of a run's state; nothing else writes runs.state. The table of transitions is in stores/base.py.
-- A run is running exactly if it has `lease_until` and `worker_id`; paused, if it has `wake_at`; failed, if `retryable`:
-- conditions say it by these, so that no index of states is taken for one that leads to a run.

-- -> ready, or paused until it may start. Returns nothing if the id is taken.
CREATE FUNCTION signoff.create_row(p_namespace text, p_run jsonb, p_token text, p_now double precision)
RETURNS SETOF signoff.runs
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        INSERT INTO signoff.runs (
            id, namespace, workflow, group_name, state, created_at, ready_at, wake_at, parent_id, parent_n,
            deadline_at, priority, start_at, arguments, arguments_digest, create_token
        )
        SELECT id, p_namespace, workflow, group_name, CASE WHEN start_at > p_now THEN 'paused' ELSE 'ready' END,
            p_now, p_now, CASE WHEN start_at > p_now THEN start_at END, parent_id, parent_n,
            deadline_at, priority, start_at, arguments, arguments_digest, p_token
        FROM jsonb_to_record(p_run) AS new (
            id text, workflow text, group_name text, parent_id text, parent_n integer, deadline_at double precision,
            priority integer, start_at double precision, arguments text, arguments_digest text
        )
        ON CONFLICT (id, namespace) DO NOTHING
        RETURNING *;
END $$;

-- ready -> running, by priority, then oldest ready first; what another claim has just now locked is passed over.
CREATE FUNCTION signoff.claim_rows(
    p_namespace text, p_group text, p_workflows text[], p_limit integer, p_worker_id text, p_token text,
    p_lease_until double precision
) RETURNS SETOF signoff.runs
LANGUAGE plpgsql AS $$
DECLARE
    -- One branch for each workflow: they are merged, each in the order of its index.
    branch constant text := 'SELECT id, priority, ready_at, number FROM signoff.runs'
        ' WHERE workflow = %L AND group_name = $2 AND namespace = $1 AND state = ''ready''';
    candidates text := (SELECT string_agg(format(branch, name), ' UNION ALL ') FROM unnest(p_workflows) AS name);
    candidate record;
    state_now text;
    taken text[] := '{}';
BEGIN
    FOR candidate IN EXECUTE candidates || ' ORDER BY priority DESC, ready_at, number' USING p_namespace, p_group LOOP
        SELECT runs.state INTO state_now FROM signoff.runs
        WHERE id = candidate.id AND namespace = p_namespace
        FOR NO KEY UPDATE SKIP LOCKED;
        IF state_now = 'ready' THEN
            taken := taken || candidate.id;
            EXIT WHEN cardinality(taken) >= p_limit;
        END IF;
    END LOOP;
    RETURN QUERY
        UPDATE signoff.runs
        SET state = 'running', epoch = epoch + 1, worker_id = p_worker_id, lease_until = p_lease_until,
            claim_token = p_token
        WHERE id = ANY (taken) AND namespace = p_namespace
        RETURNING *;
END $$;

-- running -> paused, unless something came since `wakes` was read.
CREATE FUNCTION signoff.pause_row(
    p_namespace text, p_run_id text, p_epoch integer, p_wakes integer, p_wake_at double precision
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE signoff.runs
    SET state = 'paused', wake_at = p_wake_at, worker_id = NULL, lease_until = NULL
    WHERE id = p_run_id AND namespace = p_namespace AND epoch = p_epoch AND wakes = p_wakes
        AND lease_until IS NOT NULL;
    RETURN FOUND;
END $$;

-- paused -> ready, when something came; but a delayed run (epoch 0) only collects what comes.
-- A run that failed retryably is kept whole: it goes on collecting, too.
-- Returns the run's `wakes` now; NULL if it has ended.
CREATE FUNCTION signoff.wake_row(p_namespace text, p_run_id text, p_now double precision) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    count_now integer;
BEGIN
    UPDATE signoff.runs
    SET wakes = wakes + 1,
        state = CASE WHEN state = 'paused' AND epoch > 0 THEN 'ready' ELSE state END,
        ready_at = CASE WHEN state = 'paused' AND epoch > 0 THEN p_now ELSE ready_at END,
        wake_at = CASE WHEN epoch > 0 THEN NULL ELSE wake_at END
    WHERE id = p_run_id AND namespace = p_namespace AND (ended_at IS NULL OR retryable)
    RETURNING wakes INTO count_now;
    RETURN count_now;
END $$;

-- paused -> ready, when their timers are due, or delayed ones may start. What another process serves just now is passed over.
CREATE FUNCTION signoff.wake_timers(p_now double precision, p_limit integer) RETURNS TABLE (namespace text, id text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        UPDATE signoff.runs AS runs
        SET state = 'ready', ready_at = p_now, wake_at = NULL
        FROM (
            SELECT id, namespace FROM signoff.runs
            WHERE wake_at IS NOT NULL AND wake_at <= p_now
            ORDER BY wake_at LIMIT p_limit
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS due
        WHERE runs.id = due.id AND runs.namespace = due.namespace
        RETURNING runs.namespace, runs.id;
END $$;

-- running -> ready, when the lease ran out.
CREATE FUNCTION signoff.free_lost(p_now double precision, p_lease_now double precision, p_limit integer)
RETURNS TABLE (namespace text, id text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        UPDATE signoff.runs AS runs
        SET state = 'ready', ready_at = p_now, worker_id = NULL, lease_until = NULL
        FROM (
            SELECT id, namespace FROM signoff.runs
            WHERE worker_id IS NOT NULL AND lease_until <= p_lease_now
            ORDER BY lease_until LIMIT p_limit
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS lost
        WHERE runs.id = lost.id AND runs.namespace = lost.namespace
        RETURNING runs.namespace, runs.id;
END $$;

-- running -> ready, when the worker lets go.
CREATE FUNCTION signoff.release_rows(p_worker_id text, p_now double precision) RETURNS TABLE (namespace text, id text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        UPDATE signoff.runs AS runs
        SET state = 'ready', ready_at = p_now, worker_id = NULL, lease_until = NULL
        FROM (
            SELECT id, namespace FROM signoff.runs
            WHERE worker_id = p_worker_id
            ORDER BY id, namespace
            FOR NO KEY UPDATE
        ) AS held
        WHERE runs.id = held.id AND runs.namespace = held.namespace
        RETURNING runs.namespace, runs.id;
END $$;

-- running -> succeeded | failed | cancelled
CREATE FUNCTION signoff.end_row(
    p_namespace text, p_run_id text, p_epoch integer, p_outcome jsonb, p_now double precision
) RETURNS SETOF signoff.runs
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        UPDATE signoff.runs
        SET state = p_outcome ->> 'state', result = p_outcome ->> 'result', error = p_outcome ->> 'error',
            retryable = coalesce((p_outcome ->> 'retryable')::boolean, false), ended_at = p_now,
            worker_id = NULL, lease_until = NULL
        WHERE id = p_run_id AND namespace = p_namespace AND epoch = p_epoch AND lease_until IS NOT NULL
        RETURNING *;
END $$;

-- ready or paused, never started -> cancelled; failed, retryable -> cancelled: no code is left that could clean up.
CREATE FUNCTION signoff.cancel_row(p_namespace text, p_run_id text, p_error text, p_now double precision)
RETURNS SETOF signoff.runs
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        UPDATE signoff.runs
        SET state = 'cancelled', retryable = false, error = p_error, ended_at = p_now, wake_at = NULL
        WHERE id = p_run_id AND namespace = p_namespace
            AND (epoch = 0 AND ended_at IS NULL OR state = 'failed' AND retryable)
        RETURNING *;
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
