-- Runs that wait for an operator, runs that are ended or retried by one, and how often a run's worker was lost:
-- `takeovers` counts since the journal last grew, `takeover_seq` is its length when that happened last.

ALTER TABLE signoff.runs
    ADD COLUMN takeovers integer NOT NULL DEFAULT 0,
    ADD COLUMN takeover_seq integer NOT NULL DEFAULT 0,
    ADD COLUMN suspended_at double precision,
    ADD COLUMN suspended_by text,
    ADD COLUMN suspended_reason text;

CREATE INDEX runs_suspended ON signoff.runs ((namespace || ''), number) WHERE suspended_at IS NOT NULL;

-- The transitions, as in 0002_transitions.sql and 0015_sessions.sql.

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
        lease_until = NULL
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
    IF v_slots IS NOT NULL AND NOT v_blocked THEN
        SELECT * INTO run FROM signoff.runs WHERE id = p_run_id AND namespace = p_namespace;
        v_blocked := signoff.line_up(run);
    END IF;
    IF v_state = 'ready' AND NOT v_blocked THEN
        PERFORM signoff.tell_workers();
    END IF;
    RETURN v_wakes;
END $$;

-- How many takeovers a run has when its worker is lost, and the length of its journal then.
CREATE FUNCTION signoff.count_takeover(p_namespace text, p_run_id text, INOUT p_takeovers integer, INOUT p_seq integer)
LANGUAGE plpgsql AS $$
DECLARE
    v_length constant integer := signoff.next_seq(p_namespace, p_run_id);
BEGIN
    p_takeovers := CASE WHEN v_length > p_seq THEN 1 ELSE p_takeovers + 1 END;
    p_seq := v_length;
END $$;

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

DROP FUNCTION signoff.release_rows(text, double precision);

CREATE FUNCTION signoff.release_rows(p_worker_id text, p_now double precision, p_dead boolean)
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
                SELECT CASE WHEN p_dead THEN p_takeovers ELSE runs.takeovers END,
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

CREATE OR REPLACE FUNCTION signoff.pass_turn(p_namespace text, p_session_id text, p_now double precision) RETURNS void
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
        RETURN;
    END IF;
    PERFORM set_config('signoff.turns', (
        coalesce(nullif(current_setting('signoff.turns', true), ''), '[]')::jsonb || to_jsonb(v_id)
    )::text, true);
    IF run.state = 'ready' AND NOT signoff.line_up(run) THEN
        PERFORM signoff.tell_workers();
    END IF;
END $$;

-- What is free when a run has ended without its code.
CREATE FUNCTION signoff.ended_row(p_run signoff.runs, p_was_running boolean, p_now double precision) RETURNS void
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

-- never begun -> failed: its deadline has passed. The caller has it locked.
CREATE FUNCTION signoff.expire_row(p_namespace text, p_run_id text, p_error text, p_now double precision)
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
CREATE FUNCTION signoff.terminate_row(p_namespace text, p_run_id text, p_error text, p_now double precision)
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
CREATE FUNCTION signoff.suspend_row(
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
CREATE FUNCTION signoff.resume_row(p_namespace text, p_run_id text, p_now double precision) RETURNS SETOF signoff.runs
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

-- What operators do. Each returns the run, and `done` if it was done by this call or by the same one before; `event` is
-- what is recorded of it.

CREATE FUNCTION signoff.record_one(p_namespace text, p_event jsonb, p_now double precision) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_event IS NOT NULL AND p_event <> 'null' THEN
        PERFORM signoff.record(p_namespace, jsonb_build_array(p_event), p_now);
    END IF;
END $$;

-- Whether this very call has been done before.
CREATE FUNCTION signoff.is_recorded(p_namespace text, p_event jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM signoff.audit
        WHERE shard = signoff.shard_of(p_event ->> 'question_id') AND namespace = p_namespace AND id = p_event ->> 'id'
    );
END $$;

CREATE FUNCTION signoff.suspend(p_op jsonb, p_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_run_id constant text := p_op ->> 'run_id';
    v_epoch constant integer := (p_op ->> 'epoch')::integer;
    run signoff.runs;
    woken text[] := '{}';
BEGIN
    SELECT * INTO run FROM signoff.runs WHERE id = v_run_id AND namespace = v_namespace FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN '{}';
    END IF;
    IF v_epoch IS NOT NULL AND (run.epoch <> v_epoch OR run.worker_id IS NULL) THEN
        RETURN jsonb_build_object(
            'run', to_jsonb(run), CASE WHEN run.epoch = v_epoch AND run.suspended_at IS NOT NULL THEN 'done' ELSE 'lost' END,
            true
        );
    END IF;
    PERFORM FROM signoff.suspend_row(
        v_namespace, v_run_id, p_op #>> '{event,by}', p_op ->> 'reason', p_now
    );
    IF FOUND THEN
        IF v_epoch IS NOT NULL THEN
            PERFORM signoff.pause_row(v_namespace, v_run_id, v_epoch, run.wakes, NULL);
        ELSIF run.worker_id IS NOT NULL THEN
            woken := signoff.leave(
                v_namespace, v_run_id, 'suspend', p_now, p_by => p_op #>> '{event,by}', p_note => p_op ->> 'reason'
            );
        END IF;
        PERFORM signoff.record_one(v_namespace, p_op -> 'event', p_now);
    END IF;
    SELECT * INTO run FROM signoff.runs WHERE id = v_run_id AND namespace = v_namespace;
    RETURN jsonb_build_object('run', to_jsonb(run), 'done', run.ended_at IS NULL, 'woken', woken);
END $$;

CREATE FUNCTION signoff.resume(p_op jsonb, p_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_run_id constant text := p_op ->> 'run_id';
    run signoff.runs;
BEGIN
    PERFORM FROM signoff.runs WHERE id = v_run_id AND namespace = v_namespace FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN '{}';
    END IF;
    PERFORM FROM signoff.resume_row(v_namespace, v_run_id, p_now);
    IF FOUND THEN
        PERFORM signoff.record_one(v_namespace, p_op -> 'event', p_now);
    END IF;
    SELECT * INTO run FROM signoff.runs WHERE id = v_run_id AND namespace = v_namespace;
    RETURN jsonb_build_object('run', to_jsonb(run), 'done', run.ended_at IS NULL);
END $$;

CREATE FUNCTION signoff.terminate(p_op jsonb, p_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_run_id constant text := p_op ->> 'run_id';
    run signoff.runs;
    child record;
    woken text[];
    ended jsonb := '[]';
    cancelled jsonb;
BEGIN
    PERFORM FROM signoff.runs WHERE id = v_run_id AND namespace = v_namespace FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN '{}';
    END IF;
    SELECT * INTO run FROM signoff.terminate_row(v_namespace, v_run_id, p_op ->> 'error', p_now);
    IF NOT FOUND THEN
        SELECT * INTO run FROM signoff.runs WHERE id = v_run_id AND namespace = v_namespace;
        RETURN jsonb_build_object(
            'run', to_jsonb(run), 'done', signoff.is_recorded(v_namespace, p_op -> 'event')
        );
    END IF;
    PERFORM signoff.note(run, 'cancelled', run.error, p_op ->> 'details', p_now);
    DELETE FROM signoff.live WHERE run_id = v_run_id AND namespace = v_namespace;
    woken := signoff.finish(run, p_now);
    DELETE FROM signoff.waiters WHERE run_id = v_run_id AND namespace = v_namespace;
    FOR child IN
        SELECT id FROM signoff.runs
        WHERE parent_id = v_run_id AND namespace = v_namespace AND parent_n IS NOT NULL
            AND (ended_at IS NULL OR retryable)
        ORDER BY number
    LOOP
        cancelled := signoff.cancel(
            v_namespace, child.id, NULL, 'run:' || v_run_id,
            signoff.error_for(p_op ->> 'child_error', child.id), p_now
        );
        woken := woken || ARRAY(SELECT jsonb_array_elements_text(cancelled -> 'woken'));
        IF (cancelled -> 'ended')::boolean THEN
            ended := ended || to_jsonb(child.id);
        END IF;
    END LOOP;
    PERFORM signoff.record_one(v_namespace, p_op -> 'event', p_now);
    RETURN jsonb_build_object('run', to_jsonb(run), 'done', true, 'was_ended', ended, 'woken', woken);
END $$;

-- The JSON of an error about a run, made of one about the run '<run>'.
CREATE FUNCTION signoff.error_for(p_template text, p_run_id text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    quoted constant text := to_jsonb(p_run_id)::text;
BEGIN
    RETURN replace(p_template, '<run>', substring(quoted FROM 2 FOR length(quoted) - 2));
END $$;

DROP FUNCTION signoff.retry(text, text, text, double precision);

-- Make a failed run ready, or resume a suspended one. One that failed for good is retried if it failed in `epoch`.
CREATE FUNCTION signoff.retry(p_op jsonb, p_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_run_id constant text := p_op ->> 'run_id';
    run signoff.runs;
    promise signoff.promises;
    child signoff.runs;
    kept boolean;
    woken text[] := '{}';
BEGIN
    SELECT * INTO run FROM signoff.runs WHERE id = v_run_id AND namespace = v_namespace FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN '{}';
    END IF;
    PERFORM FROM signoff.journal
    WHERE run_id = v_run_id AND namespace = v_namespace AND kind = 'retried'
        AND (details::jsonb) ->> 'token' = p_op ->> 'token';
    IF FOUND OR signoff.is_recorded(v_namespace, p_op -> 'event') THEN
        RETURN jsonb_build_object('run', to_jsonb(run), 'done', true);
    END IF;
    IF run.suspended_at IS NOT NULL THEN
        RETURN signoff.resume(p_op, p_now);
    END IF;
    kept := run.retryable;
    IF run.state <> 'failed' OR NOT kept AND run.epoch IS DISTINCT FROM (p_op ->> 'epoch')::integer THEN
        RETURN jsonb_build_object('run', to_jsonb(run));
    END IF;
    IF NOT kept AND run.session_id IS NOT NULL
        AND signoff.active_run(v_namespace, run.session_id) IS NOT NULL THEN
        RETURN jsonb_build_object('run', to_jsonb(run), 'busy', true);
    END IF;
    SELECT * INTO run FROM signoff.retry_row(v_namespace, v_run_id, p_now);
    PERFORM signoff.note(run, 'retried', NULL, p_op ->> CASE WHEN kept THEN 'kept' ELSE 'dropped' END, p_now);
    IF kept THEN
        PERFORM signoff.record_one(v_namespace, p_op -> 'event', p_now);
        RETURN jsonb_build_object('run', to_jsonb(run), 'done', true);
    END IF;
    FOR promise IN
        SELECT * FROM signoff.promises
        WHERE run_id = v_run_id AND namespace = v_namespace AND settled_at IS NOT NULL
            AND n IN (SELECT value::integer FROM jsonb_array_elements_text(p_op -> 'open'))
        ORDER BY n
    LOOP
        woken := woken || signoff.tell(promise, v_run_id, promise.n, p_now);
    END LOOP;
    FOR child IN
        SELECT * FROM signoff.runs
        WHERE parent_id = v_run_id AND namespace = v_namespace AND ended_at IS NOT NULL AND NOT retryable
            AND parent_n IN (SELECT value::integer FROM jsonb_array_elements_text(p_op -> 'open'))
        ORDER BY parent_n
    LOOP
        woken := woken || signoff.tell_end(
            v_namespace, v_run_id, child.parent_n, child.id, child.state, child.result, child.error, p_now
        );
    END LOOP;
    PERFORM signoff.record_one(v_namespace, p_op -> 'event', p_now);
    SELECT * INTO run FROM signoff.runs WHERE id = v_run_id AND namespace = v_namespace;
    RETURN jsonb_build_object('run', to_jsonb(run), 'done', true, 'woken', woken);
END $$;

-- As in 0006_time.sql. A run that was never begun ends here; whoever is told of it is locked first, or another time.
DROP FUNCTION signoff.due(double precision, double precision, integer, double precision);
DROP FUNCTION signoff.pass_deadlines(double precision, integer);

CREATE FUNCTION signoff.pass_deadlines(
    p_now double precision, p_limit integer, p_error text, OUT woken jsonb, OUT ended jsonb
)
LANGUAGE plpgsql AS $$
DECLARE
    late record;
    run signoff.runs;
    told text[];
BEGIN
    woken := '[]';
    ended := '[]';
    FOR late IN
        SELECT id, namespace FROM signoff.runs
        WHERE deadline_at IS NOT NULL AND NOT deadline_passed AND ended_at IS NULL AND deadline_at <= p_now
        ORDER BY deadline_at LIMIT p_limit
    LOOP
        SELECT * INTO run FROM signoff.runs
        WHERE id = late.id AND namespace = late.namespace AND signoff.try_lock_slots(slots)
        FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND OR run.deadline_passed OR run.ended_at IS NOT NULL;
        IF run.epoch = 0 OR run.state = 'ready' AND signoff.next_seq(run.namespace, run.id) = 0 THEN
            CONTINUE WHEN run.session_id IS NOT NULL
                AND NOT signoff.try_lock_slots(signoff.turns_of(run.namespace, run.session_id));
            IF run.parent_n IS NOT NULL THEN
                PERFORM FROM signoff.runs WHERE id = run.parent_id AND namespace = run.namespace
                FOR NO KEY UPDATE SKIP LOCKED;
                CONTINUE WHEN NOT FOUND AND EXISTS (
                    SELECT FROM signoff.runs WHERE id = run.parent_id AND namespace = run.namespace
                );
            END IF;
            run := signoff.expire_row(
                run.namespace, run.id, signoff.error_for(p_error, run.id), p_now
            );
            PERFORM signoff.note(run, 'failed', run.error, NULL, p_now);
            ended := ended || jsonb_build_array(jsonb_build_array(run.namespace, run.id));
            told := signoff.finish(run, p_now);
        ELSE
            UPDATE signoff.runs SET deadline_passed = true WHERE id = run.id AND namespace = run.namespace;
            told := signoff.leave(run.namespace, run.id, 'deadline', p_now);
        END IF;
        woken := woken || (
            SELECT coalesce(jsonb_agg(jsonb_build_array(run.namespace, id)), '[]') FROM unnest(told) AS id
        );
    END LOOP;
END $$;

CREATE FUNCTION signoff.due(
    p_now double precision, p_lease_now double precision, p_limit integer, p_forget_seconds double precision,
    p_timed_out text
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
    passed jsonb := '[]';
    ended jsonb := '[]';
BEGIN
    IF next_at <= v_now THEN
        SELECT coalesce(jsonb_agg(jsonb_build_array(namespace, id)), '[]') INTO woken
        FROM signoff.time_out_promises(v_now, p_limit);
        SELECT coalesce(jsonb_agg(jsonb_build_array(namespace, id)), '[]') INTO freed
        FROM signoff.wake_timers(v_now, p_limit);
        SELECT told.woken, told.ended INTO passed, ended FROM signoff.pass_deadlines(v_now, p_limit, p_timed_out) AS told;
        SELECT freed || coalesce(jsonb_agg(jsonb_build_array(namespace, id)), '[]') INTO freed
        FROM signoff.free_lost(v_now, v_lease_now, p_limit);
        SELECT coalesce(jsonb_agg(namespace), '[]') INTO opened FROM signoff.open_due(v_now, p_limit) AS namespace;
        DELETE FROM signoff.workers WHERE seen_at <= v_lease_now - p_forget_seconds;
        next_at := signoff.next_due(v_now, v_lease_now, p_forget_seconds);
    END IF;
    RETURN jsonb_build_object(
        'next', next_at, 'now', db_now, 'woken', woken || passed, 'freed', freed, 'opened', opened,
        'ended', ended
    );
END $$;
CALL signoff.plan_by_index('signoff.due');

-- The sessions in which an operation may start or end runs; of these it may end, `p_concerned` are known.
CREATE OR REPLACE FUNCTION signoff.chains_of(p_op jsonb, p_concerned text[]) RETURNS SETOF text
LANGUAGE plpgsql AS $$
BEGIN
    IF p_op #>> '{new,session_id}' IS NOT NULL THEN
        RETURN NEXT p_op #>> '{new,session_id}';
    END IF;
    IF p_op #> '{write,starts}' IS NOT NULL THEN
        RETURN QUERY
            SELECT new ->> 'session_id' FROM jsonb_array_elements(p_op #> '{write,starts}') AS new
            WHERE new ->> 'session_id' IS NOT NULL;
    END IF;
    IF p_op -> 'write' ? 'outcome' OR p_op -> 'write' ? 'cancels'
        OR p_op ->> 'op' IN ('cancel', 'terminate', 'retry', 'resume') THEN
        RETURN QUERY
            SELECT run.session_id FROM unnest(p_concerned) AS listed (id)
            CROSS JOIN LATERAL (
                SELECT runs.session_id FROM signoff.runs AS runs
                WHERE runs.id = listed.id AND runs.namespace = p_op ->> 'namespace' OFFSET 0
            ) AS run
            WHERE run.session_id || '' IS NOT NULL;
    END IF;
END $$;

-- As in 0022_signals_with_answers.sql: what ends a run concerns more than the run.
ALTER FUNCTION signoff.concerned(jsonb) RENAME TO concerned_by_writes;

CREATE FUNCTION signoff.concerned(p_op jsonb) RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    IF p_op ->> 'op' <> 'terminate' THEN
        RETURN signoff.concerned_by_writes(p_op);
    END IF;
    RETURN signoff.concerned_by_writes(p_op || '{"op": "cancel"}') || ARRAY(
        SELECT id FROM signoff.runs
        WHERE parent_id = p_op ->> 'run_id' AND namespace = p_op ->> 'namespace' AND parent_n IS NOT NULL
            AND (ended_at IS NULL OR retryable)
    );
END $$;

ALTER FUNCTION signoff.operate(jsonb, double precision, double precision) RENAME TO operate_on;

CREATE FUNCTION signoff.operate(p_op jsonb, p_now double precision, p_lease_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
    CASE p_op ->> 'op'
    WHEN 'suspend' THEN
        RETURN signoff.suspend(p_op, p_now);
    WHEN 'resume' THEN
        RETURN signoff.resume(p_op, p_now);
    WHEN 'terminate' THEN
        RETURN signoff.terminate(p_op, p_now);
    WHEN 'retry' THEN
        RETURN signoff.retry(p_op, p_now);
    ELSE
        RETURN signoff.operate_on(p_op, p_now, p_lease_now);
    END CASE;
END $$;

CREATE OR REPLACE FUNCTION signoff.run_values(p_run signoff.runs) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_array(
        (p_run).namespace, (p_run).id, (p_run).workflow, (p_run).group_name, (p_run).arguments, (p_run).state,
        (p_run).created_at, (p_run).parent_id, (p_run).parent_n, (p_run).deadline_at, (p_run).ended_at,
        (p_run).result, (p_run).error, (p_run).retryable, (p_run).epoch, (p_run).wakes, (p_run).wake_at,
        (p_run).worker_id, (p_run).lease_until, (p_run).first_seq, (p_run).priority, (p_run).start_at,
        (p_run).concurrency_key, (p_run).concurrency_limit, (p_run).traceparent, (p_run).started_by, (p_run).session_id, (p_run).position,
        (p_run).takeovers, (p_run).suspended_at, (p_run).suspended_by, (p_run).suspended_reason
    )
$$;
