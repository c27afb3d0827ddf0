-- What time brings, and leases.

-- When the next thing is due, in business time: a lease that ends in three seconds is due in three seconds.
CREATE FUNCTION signoff.next_due(
    p_now double precision, p_lease_now double precision, p_forget_seconds double precision
) RETURNS double precision
LANGUAGE plpgsql STABLE AS $$
BEGIN
    -- Not min(): a plan made for an empty table would read all of a full one.
    RETURN least(
        (SELECT due_at FROM signoff.promises WHERE state = 'pending' AND due_at IS NOT NULL ORDER BY due_at LIMIT 1),
        (SELECT wake_at FROM signoff.runs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
        (SELECT deadline_at FROM signoff.runs
            WHERE deadline_at IS NOT NULL AND NOT deadline_passed AND ended_at IS NULL
            ORDER BY deadline_at LIMIT 1),
        (SELECT opens_at FROM signoff.groups WHERE opens_at IS NOT NULL ORDER BY opens_at LIMIT 1),
        (SELECT p_now + seen_at + p_forget_seconds - p_lease_now FROM signoff.workers ORDER BY seen_at LIMIT 1),
        (SELECT p_now + min(lease_until) - p_lease_now FROM signoff.runs WHERE worker_id IS NOT NULL)
    );
END $$;

-- Time out promises. A run is locked before its promises, by everybody; what others have locked is left to them.
CREATE FUNCTION signoff.time_out_promises(p_now double precision, p_limit integer)
RETURNS TABLE (namespace text, id text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    late record;
    promise signoff.promises;
BEGIN
    FOR late IN
        SELECT shard, namespace, id, run_id FROM signoff.promises
        WHERE state = 'pending' AND due_at IS NOT NULL AND due_at <= p_now
        ORDER BY due_at LIMIT p_limit
    LOOP
        IF late.run_id IS NOT NULL THEN
            PERFORM FROM signoff.runs
            WHERE id = late.run_id AND namespace = late.namespace AND signoff.try_lock_slots(slots)
            FOR NO KEY UPDATE SKIP LOCKED;
            CONTINUE WHEN NOT FOUND;
        END IF;
        UPDATE signoff.promises AS promises SET state = 'timed_out', settled_at = p_now
        FROM (
            SELECT shard, namespace, id FROM signoff.promises
            WHERE shard = late.shard AND namespace = late.namespace AND id = late.id AND settled_at IS NULL
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS mine
        WHERE promises.shard = mine.shard AND promises.namespace = mine.namespace AND promises.id = mine.id
        RETURNING promises.* INTO promise;
        CONTINUE WHEN NOT FOUND;
        RETURN QUERY SELECT late.namespace, woken FROM unnest(signoff.tell_all(promise, p_now)) AS woken;
    END LOOP;
END $$;

-- Tell runs that their deadline has passed.
CREATE FUNCTION signoff.pass_deadlines(p_now double precision, p_limit integer) RETURNS TABLE (namespace text, id text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        WITH passed AS (
            UPDATE signoff.runs AS runs SET deadline_passed = true
            FROM (
                SELECT id, namespace FROM signoff.runs
                WHERE deadline_at IS NOT NULL AND NOT deadline_passed AND ended_at IS NULL AND deadline_at <= p_now
                    AND signoff.try_lock_slots(slots)
                ORDER BY deadline_at LIMIT p_limit
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS due
            WHERE runs.id = due.id AND runs.namespace = due.namespace
            RETURNING runs.namespace, runs.id
        )
        SELECT namespace, id FROM passed;
END $$;

-- Do what time has brought. Returns {"next": when the next thing is due, "now": the time here, "woken": ..., "freed": ..., "opened": ...}.
CREATE FUNCTION signoff.due(
    p_now double precision, p_lease_now double precision, p_limit integer, p_forget_seconds double precision
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    db_now constant double precision := extract(epoch FROM clock_timestamp());
    v_now constant double precision := coalesce(p_now, db_now);
    v_lease_now constant double precision := coalesce(p_lease_now, db_now);
    next_at double precision := signoff.next_due(v_now, v_lease_now, p_forget_seconds);
    woken jsonb := '[]';
    freed jsonb := '[]';
    opened jsonb := '[]';
BEGIN
    IF next_at <= v_now THEN
        SELECT coalesce(jsonb_agg(jsonb_build_array(namespace, id)), '[]') INTO woken
        FROM signoff.time_out_promises(v_now, p_limit);
        SELECT coalesce(jsonb_agg(jsonb_build_array(namespace, id)), '[]') INTO freed
        FROM signoff.wake_timers(v_now, p_limit);
        SELECT woken || coalesce(jsonb_agg(jsonb_build_array(namespace, told)), '[]') INTO woken
        FROM signoff.pass_deadlines(v_now, p_limit) AS passed,
            unnest(signoff.leave(passed.namespace, passed.id, 'deadline', v_now)) AS told;
        SELECT freed || coalesce(jsonb_agg(jsonb_build_array(namespace, id)), '[]') INTO freed
        FROM signoff.free_lost(v_now, v_lease_now, p_limit);
        SELECT coalesce(jsonb_agg(namespace), '[]') INTO opened FROM signoff.open_due(v_now, p_limit) AS namespace;
        DELETE FROM signoff.workers WHERE seen_at <= v_lease_now - p_forget_seconds;
        next_at := signoff.next_due(v_now, v_lease_now, p_forget_seconds);
    END IF;
    RETURN jsonb_build_object(
        'next', next_at, 'now', db_now, 'woken', woken, 'freed', freed, 'opened', opened
    );
END $$;
CALL signoff.plan_by_index('signoff.due');

-- Extend leases: one statement for all runs of a worker. Returns those that it still holds.
CREATE FUNCTION signoff.heartbeat(
    p_namespace text, p_worker_id text, p_run_ids text[], p_epochs integer[], p_lease_now double precision,
    p_lease_seconds double precision
) RETURNS SETOF text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        UPDATE signoff.runs AS runs
        SET lease_until = coalesce(p_lease_now, extract(epoch FROM clock_timestamp())) + p_lease_seconds
        FROM (
            SELECT run.id, run.namespace
            FROM unnest(p_run_ids, p_epochs) AS held (run_id, epoch)
            CROSS JOIN LATERAL (
                SELECT id, namespace, worker_id FROM signoff.runs
                WHERE id = held.run_id AND namespace = p_namespace AND epoch = held.epoch
                FOR NO KEY UPDATE
            ) AS run
            WHERE run.worker_id = p_worker_id
        ) AS kept
        WHERE runs.id = kept.id AND runs.namespace = kept.namespace
        RETURNING runs.id;
END $$;
