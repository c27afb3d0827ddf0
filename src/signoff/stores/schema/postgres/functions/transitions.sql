-- Every transition of a run's state. Elsewhere only signoff.do_item (timers.sql) writes runs.state: it does one item of what
-- signoff.wake_timers and signoff.free_lost do for many. docs/state-machine.md has the table of transitions.
--
-- A run is running exactly if it has `lease_until` and `worker_id`; paused, if it has `wake_at`; failed, if `retryable`:
-- conditions say it by these, so that no index of states is taken for one that leads to a run.
--
-- What comes for a run is not lost where a trigger, or a policy of row-level security, leaves its row as it was without an
-- error: the change fails, or follows later.

-- -> ready, or paused until it may start. Returns whether the id was free.
CREATE OR REPLACE FUNCTION signoff.create_row(p_namespace text, p_run jsonb, p_token text, p_now double precision) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_session constant text := p_run ->> 'session_id';
    v_slots text;
    v_number bigint;
    v_position integer;
    waits boolean := false;
    run signoff.runs;
BEGIN
    IF v_session IS NOT NULL THEN
        PERFORM signoff.lock_slots(signoff.turns_of(p_namespace, v_session));
        v_position := 1 + coalesce((
            SELECT last_position FROM signoff.sessions WHERE id = v_session AND namespace = p_namespace
        ), 0);
        waits := signoff.active_run(p_namespace, v_session) IS NOT NULL;
    END IF;
    INSERT INTO signoff.runs (
        id, namespace, workflow, group_name, state, created_at, ready_at, wake_at, parent_id, parent_n,
        deadline_at, priority, start_at, concurrency_key, concurrency_limit, slots, arguments, arguments_digest,
        create_token, traceparent, started_by, session_id, position
    )
    SELECT id, p_namespace, workflow, group_name, CASE WHEN waits OR start_at > p_now THEN 'paused' ELSE 'ready' END,
        p_now, p_now, CASE WHEN NOT waits AND start_at > p_now THEN start_at END, parent_id, parent_n,
        deadline_at, priority, start_at, concurrency_key, concurrency_limit,
        CASE WHEN concurrency_key IS NOT NULL THEN
            signoff.slots_of(p_namespace, group_name, workflow, concurrency_key)
        END,
        arguments, arguments_digest, p_token, traceparent, started_by, v_session, v_position
    FROM jsonb_to_record(p_run) AS new (
        id text, workflow text, group_name text, parent_id text, parent_n integer, deadline_at double precision,
        priority integer, start_at double precision, concurrency_key text, concurrency_limit integer, arguments text,
        arguments_digest text, traceparent text, started_by text
    )
    ON CONFLICT (id, namespace) DO NOTHING
    RETURNING slots, number INTO v_slots, v_number;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF v_session IS NOT NULL THEN
        INSERT INTO signoff.sessions (id, namespace, created_at, last_at, last_position, last_number)
        VALUES (v_session, p_namespace, p_now, p_now, v_position, v_number)
        ON CONFLICT (id, namespace) DO UPDATE
        SET last_at = p_now, last_position = v_position, last_number = v_number;
    END IF;
    IF v_slots IS NOT NULL THEN
        SELECT * INTO run FROM signoff.runs WHERE id = p_run ->> 'id' AND namespace = p_namespace;
        PERFORM signoff.line_up(run);
    END IF;
    RETURN true;
END $$;

-- ready -> running: what signoff.choose has chosen, and locked. A trigger, or a policy of row-level security, may keep a row
-- as it is without an error.
CREATE OR REPLACE FUNCTION signoff.claim_rows(
    p_namespace text, p_ids text[], p_worker_id text, p_token text, p_lease_until double precision
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    leased integer;
BEGIN
    UPDATE signoff.runs AS runs
    SET state = 'running', epoch = epoch + 1, worker_id = p_worker_id, lease_until = p_lease_until,
        claim_token = p_token
    FROM (SELECT id, p_namespace AS namespace FROM unnest(p_ids) AS id OFFSET 0) AS chosen  -- each by its whole key
    WHERE runs.id = chosen.id AND runs.namespace = chosen.namespace;
    GET DIAGNOSTICS leased = ROW_COUNT;
    IF leased <> cardinality(p_ids) THEN
        RAISE EXCEPTION 'the database has left its row as it was';
    END IF;
END $$;

-- running -> paused: progress clears a run of the takeovers before it
CREATE OR REPLACE FUNCTION signoff.pause_row(
    p_namespace text, p_run_id text, p_epoch integer, p_wakes integer, p_wake_at double precision
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_group text;
    v_slots text;
BEGIN
    UPDATE signoff.runs
    SET state = 'paused', wake_at = CASE WHEN suspended_at IS NULL THEN p_wake_at END, worker_id = NULL,
        lease_until = NULL, takeovers = CASE WHEN takeovers = 0 THEN 0 ELSE signoff.takeovers_of(runs) END
    WHERE id = p_run_id AND namespace = p_namespace AND epoch = p_epoch
        AND (wakes = p_wakes OR suspended_at IS NOT NULL) AND lease_until IS NOT NULL
    RETURNING group_name, slots INTO v_group, v_slots;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM signoff.slot_freed(p_namespace, v_group, v_slots);
    RETURN true;
END $$;

-- A delayed run (epoch 0) and a suspended one only collect what comes.
CREATE OR REPLACE FUNCTION signoff.wake_row(p_namespace text, p_run_id text, p_now double precision) RETURNS integer
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
        state = CASE WHEN state = 'paused' AND epoch > 0 AND suspended_at IS NULL THEN 'ready' ELSE state END,
        ready_at = CASE WHEN state = 'paused' AND epoch > 0 AND suspended_at IS NULL THEN p_now ELSE ready_at END,
        wake_at = CASE WHEN epoch > 0 THEN NULL ELSE wake_at END
    WHERE id = p_run_id AND namespace = p_namespace AND (ended_at IS NULL OR retryable)
    RETURNING wakes, state, slots, blocked INTO v_wakes, v_state, v_slots, v_blocked;
    IF NOT FOUND AND EXISTS (
        SELECT FROM signoff.runs
        WHERE id = p_run_id AND namespace = p_namespace AND (ended_at IS NULL OR retryable)
    ) THEN
        RAISE EXCEPTION 'the database has left its row as it was';
    END IF;
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
CREATE OR REPLACE FUNCTION signoff.wake_timers(p_now double precision, p_limit integer) RETURNS TABLE (namespace text, id text)
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

-- paused until its turn comes -> ready, or paused until it may start.
CREATE OR REPLACE FUNCTION signoff.take_turn(p_namespace text, p_session_id text, p_now double precision) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_id text;
    run signoff.runs;
BEGIN
    PERFORM signoff.lock_slots(signoff.turns_of(p_namespace, p_session_id));
    SELECT id INTO v_id FROM signoff.runs
    WHERE session_id = p_session_id AND namespace = p_namespace AND (ended_at IS NULL OR retryable)
    ORDER BY position LIMIT 1;
    UPDATE signoff.runs
    SET state = CASE WHEN start_at > p_now THEN 'paused' ELSE 'ready' END, ready_at = p_now,
        wake_at = CASE WHEN start_at > p_now THEN start_at END
    WHERE id = v_id AND namespace = p_namespace AND epoch = 0 AND state || '' = 'paused' AND wake_at IS NULL
        AND suspended_at IS NULL
    RETURNING * INTO run;
    IF NOT FOUND THEN
        IF signoff.awaits_turn(p_namespace, p_session_id) THEN
            RAISE EXCEPTION 'the database has left its row as it was';
        END IF;
        RETURN;
    END IF;
    PERFORM set_config('signoff.turns', (
        coalesce(nullif(current_setting('signoff.turns', true), ''), '[]')::jsonb || to_jsonb(v_id)
    )::text, true);
    IF run.state = 'ready' AND NOT signoff.line_up(run) THEN
        PERFORM signoff.tell_workers();
    END IF;
END $$;

-- How many takeovers a run has when its worker is lost, and the length of its journal then.
CREATE OR REPLACE FUNCTION signoff.count_takeover(p_namespace text, p_run_id text, INOUT p_takeovers integer, INOUT p_seq integer)
LANGUAGE plpgsql AS $$
DECLARE
    v_length constant integer := signoff.next_seq(p_namespace, p_run_id);
BEGIN
    p_takeovers := CASE WHEN v_length > p_seq THEN 1 ELSE p_takeovers + 1 END;
    p_seq := v_length;
END $$;

-- How many takeovers a run has since its journal last grew.
CREATE OR REPLACE FUNCTION signoff.takeovers_of(p_run signoff.runs) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF (p_run).takeovers > 0 AND signoff.next_seq((p_run).namespace, (p_run).id) > (p_run).takeover_seq THEN
        RETURN 0;
    END IF;
    RETURN (p_run).takeovers;
END $$;

-- running -> ready, when the lease ran out.
CREATE OR REPLACE FUNCTION signoff.free_lost(p_now double precision, p_lease_now double precision, p_limit integer)
RETURNS TABLE (namespace text, id text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    run signoff.runs;
BEGIN
    FOR run IN
        UPDATE signoff.runs AS runs
        SET state = CASE WHEN suspended_at IS NULL THEN 'ready' ELSE 'paused' END, ready_at = p_now,
            worker_id = NULL, lease_until = NULL,
            (takeovers, takeover_seq) = (
                SELECT p_takeovers, p_seq
                FROM signoff.count_takeover(runs.namespace, runs.id, runs.takeovers, runs.takeover_seq)
            )
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

-- running -> ready, when the worker lets go. Progress clears a run that is let go in order, too.
CREATE OR REPLACE FUNCTION signoff.release_rows(p_worker_id text, p_now double precision, p_dead boolean)
RETURNS TABLE (namespace text, id text)
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
        SET state = CASE WHEN suspended_at IS NULL THEN 'ready' ELSE 'paused' END, ready_at = p_now,
            worker_id = NULL, lease_until = NULL,
            (takeovers, takeover_seq) = (
                SELECT CASE WHEN p_dead THEN p_takeovers ELSE signoff.takeovers_of(runs) END,
                    CASE WHEN p_dead THEN p_seq ELSE runs.takeover_seq END
                FROM signoff.count_takeover(runs.namespace, runs.id, runs.takeovers, runs.takeover_seq)
            )
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

-- As signoff.release_rows, each run in a subtransaction of its own. `code` and `error` say why one was not made ready.
CREATE OR REPLACE FUNCTION signoff.release_each(p_worker_id text, p_now double precision, p_dead boolean)
RETURNS TABLE (namespace text, id text, code text, error text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held record;
    run signoff.runs;
BEGIN
    PERFORM signoff.lock_slots(slots) FROM (
        SELECT DISTINCT slots FROM signoff.runs WHERE worker_id = p_worker_id AND slots IS NOT NULL ORDER BY slots
    ) AS listed;
    FOR held IN
        SELECT id, namespace FROM signoff.runs WHERE worker_id = p_worker_id ORDER BY id, namespace
    LOOP
        BEGIN
            UPDATE signoff.runs AS runs
            SET state = CASE WHEN suspended_at IS NULL THEN 'ready' ELSE 'paused' END, ready_at = p_now,
                worker_id = NULL, lease_until = NULL,
                (takeovers, takeover_seq) = (
                    SELECT CASE WHEN p_dead THEN p_takeovers ELSE signoff.takeovers_of(runs) END,
                        CASE WHEN p_dead THEN p_seq ELSE runs.takeover_seq END
                    FROM signoff.count_takeover(runs.namespace, runs.id, runs.takeovers, runs.takeover_seq)
                )
            WHERE runs.id = held.id AND runs.namespace = held.namespace AND runs.worker_id = p_worker_id
            RETURNING runs.* INTO run;
            CONTINUE WHEN NOT FOUND;
            PERFORM signoff.slot_freed(run.namespace, run.group_name, run.slots);
            RETURN QUERY SELECT held.namespace, held.id, NULL::text, NULL::text;
        EXCEPTION WHEN OTHERS THEN
            IF NOT signoff.is_of_row(SQLSTATE) THEN
                RAISE;
            END IF;
            RETURN QUERY SELECT held.namespace, held.id, SQLSTATE, SQLERRM;
        END;
    END LOOP;
END $$;
CALL signoff.plan_by_index('signoff.release_each');

-- What is free when a run has ended without its code.
CREATE OR REPLACE FUNCTION signoff.ended_row(p_run signoff.runs, p_was_running boolean, p_now double precision) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_was_running OR p_run.slots IS NOT NULL THEN
        PERFORM signoff.slot_freed(p_run.namespace, p_run.group_name, p_run.slots);
    END IF;
    IF p_run.session_id IS NOT NULL THEN
        PERFORM signoff.pass_turn(p_run.namespace, p_run.session_id, p_now);
    END IF;
END $$;

-- running -> succeeded | failed | cancelled: what has ended waits for no operator
CREATE OR REPLACE FUNCTION signoff.end_row(
    p_namespace text, p_run_id text, p_epoch integer, p_outcome jsonb, p_now double precision
) RETURNS signoff.runs
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
BEGIN
    UPDATE signoff.runs
    SET state = p_outcome ->> 'state', result = p_outcome ->> 'result', error = p_outcome ->> 'error',
        retryable = coalesce((p_outcome ->> 'retryable')::boolean, false), ended_at = p_now,
        worker_id = NULL, lease_until = NULL, suspended_at = NULL, suspended_by = NULL, suspended_reason = NULL
    WHERE id = p_run_id AND namespace = p_namespace AND epoch = p_epoch AND lease_until IS NOT NULL
    RETURNING * INTO STRICT run;  -- the caller has it locked, and has seen that it is running
    PERFORM signoff.slot_freed(p_namespace, run.group_name, run.slots);
    IF run.session_id IS NOT NULL AND NOT run.retryable THEN
        PERFORM signoff.pass_turn(p_namespace, run.session_id, p_now);
    END IF;
    RETURN run;
END $$;

-- ready or paused, never started -> cancelled; failed, retryable -> cancelled: no code is left that could clean up.
CREATE OR REPLACE FUNCTION signoff.cancel_row(p_namespace text, p_run_id text, p_error text, p_now double precision)
RETURNS SETOF signoff.runs
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
BEGIN
    UPDATE signoff.runs
    SET state = 'cancelled', retryable = false, error = p_error, ended_at = p_now, wake_at = NULL, blocked = false,
        suspended_at = NULL, suspended_by = NULL, suspended_reason = NULL
    WHERE id = p_run_id AND namespace = p_namespace
        AND (epoch = 0 AND ended_at IS NULL OR state = 'failed' AND retryable)
    RETURNING * INTO run;
    IF FOUND THEN
        PERFORM signoff.ended_row(run, false, p_now);
        RETURN NEXT run;
    END IF;
END $$;

-- ready or paused -> failed: its deadline has passed. The caller has it locked.
CREATE OR REPLACE FUNCTION signoff.expire_row(p_namespace text, p_run_id text, p_error text, p_now double precision)
RETURNS signoff.runs
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
BEGIN
    UPDATE signoff.runs
    SET state = 'failed', error = p_error, ended_at = p_now, wake_at = NULL, blocked = false, deadline_passed = true,
        suspended_at = NULL, suspended_by = NULL, suspended_reason = NULL
    WHERE id = p_run_id AND namespace = p_namespace
    RETURNING * INTO STRICT run;
    PERFORM signoff.ended_row(run, false, p_now);
    RETURN run;
END $$;

-- not ended, or failed retryably -> cancelled
CREATE OR REPLACE FUNCTION signoff.terminate_row(p_namespace text, p_run_id text, p_error text, p_now double precision)
RETURNS SETOF signoff.runs
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
    was_running boolean;
BEGIN
    SELECT worker_id IS NOT NULL INTO was_running FROM signoff.runs WHERE id = p_run_id AND namespace = p_namespace;
    UPDATE signoff.runs
    SET state = 'cancelled', retryable = false, result = NULL, error = p_error, ended_at = p_now, wake_at = NULL,
        blocked = false, worker_id = NULL, lease_until = NULL,
        suspended_at = NULL, suspended_by = NULL, suspended_reason = NULL
    WHERE id = p_run_id AND namespace = p_namespace AND (ended_at IS NULL OR retryable)
    RETURNING * INTO run;
    IF FOUND THEN
        PERFORM signoff.ended_row(run, was_running, p_now);
        RETURN NEXT run;
    END IF;
END $$;

-- ready or paused -> paused; a running one becomes so when its worker lets go of it.
CREATE OR REPLACE FUNCTION signoff.suspend_row(
    p_namespace text, p_run_id text, p_by text, p_reason text, p_now double precision
) RETURNS SETOF signoff.runs
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
BEGIN
    UPDATE signoff.runs
    SET state = CASE WHEN worker_id IS NULL THEN 'paused' ELSE state END, wake_at = NULL, blocked = false,
        suspended_at = p_now, suspended_by = p_by, suspended_reason = p_reason
    WHERE id = p_run_id AND namespace = p_namespace AND ended_at IS NULL AND suspended_at IS NULL
    RETURNING * INTO run;
    IF FOUND THEN
        IF run.worker_id IS NULL AND run.slots IS NOT NULL THEN
            PERFORM signoff.slot_freed(run.namespace, run.group_name, run.slots);
        END IF;
        RETURN NEXT run;
    END IF;
END $$;

-- suspended -> as if it had not been
CREATE OR REPLACE FUNCTION signoff.resume_row(p_namespace text, p_run_id text, p_now double precision) RETURNS SETOF signoff.runs
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
    waits boolean;
BEGIN
    DELETE FROM signoff.messages WHERE run_id = p_run_id AND namespace = p_namespace AND kind = 'suspend';
    SELECT coalesce(signoff.active_run(p_namespace, session_id) <> p_run_id, false) INTO waits
    FROM signoff.runs WHERE id = p_run_id AND namespace = p_namespace;
    UPDATE signoff.runs
    SET state = CASE
            WHEN worker_id IS NULL AND (epoch > 0 OR NOT waits AND coalesce(start_at, 0) <= p_now) THEN 'ready'
            ELSE state
        END,
        wake_at = CASE WHEN worker_id IS NULL AND epoch = 0 AND NOT waits AND start_at > p_now THEN start_at END,
        ready_at = p_now, takeovers = 0, suspended_at = NULL, suspended_by = NULL, suspended_reason = NULL
    WHERE id = p_run_id AND namespace = p_namespace AND ended_at IS NULL AND suspended_at IS NOT NULL
    RETURNING * INTO run;
    IF FOUND THEN
        IF run.state = 'ready' AND NOT signoff.line_up(run) THEN
            PERFORM signoff.tell_workers();
        END IF;
        RETURN NEXT run;
    END IF;
END $$;

-- failed -> ready
CREATE OR REPLACE FUNCTION signoff.retry_row(p_namespace text, p_run_id text, p_now double precision)
RETURNS SETOF signoff.runs
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        UPDATE signoff.runs
        SET state = 'ready', ready_at = p_now, retryable = false, ended_at = NULL, error = NULL, takeovers = 0,
            deadline_at = CASE WHEN retryable OR deadline_at > p_now THEN deadline_at END
        WHERE id = p_run_id AND namespace = p_namespace AND state || '' = 'failed'
        RETURNING *;
END $$;
