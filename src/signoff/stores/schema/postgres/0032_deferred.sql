-- Changes of runs that follow from those of other runs, and that the database refused to make: a next turn of a session
-- (`id` is the session's), a run that may have a slot, a run to cancel, a message to call `n` of a run that joined what was
-- settled. They are made later, alone. They do not fail what they follow from.

CREATE TABLE signoff.deferred (
    id text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    n integer NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    details jsonb,
    PRIMARY KEY (id, namespace, kind, n)
);
CREATE INDEX deferred_by_number ON signoff.deferred (number);

CREATE FUNCTION signoff.defer(
    p_kind text, p_namespace text, p_id text, p_n integer DEFAULT -1, p_details jsonb DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.deferred (kind, namespace, id, n, details) VALUES (p_kind, p_namespace, p_id, p_n, p_details)
    ON CONFLICT DO NOTHING;
END $$;

-- Whether the first run of a session waits for its turn.
CREATE FUNCTION signoff.awaits_turn(p_namespace text, p_session_id text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM signoff.runs
        WHERE id = signoff.active_run(p_namespace, p_session_id) AND namespace = p_namespace AND epoch = 0
            AND state || '' = 'paused' AND wake_at IS NULL AND suspended_at IS NULL
    );
END $$;

-- As signoff.pass_turn in 0024_suspension.sql.
CREATE FUNCTION signoff.take_turn(p_namespace text, p_session_id text, p_now double precision) RETURNS void
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

-- The same, later if the run's row cannot be changed.
CREATE OR REPLACE FUNCTION signoff.pass_turn(p_namespace text, p_session_id text, p_now double precision) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM signoff.lock_slots(signoff.turns_of(p_namespace, p_session_id));
    IF NOT signoff.awaits_turn(p_namespace, p_session_id) THEN
        RETURN;
    END IF;
    BEGIN
        PERFORM signoff.take_turn(p_namespace, p_session_id, p_now);
    EXCEPTION WHEN OTHERS THEN
        IF NOT signoff.is_of_row(SQLSTATE) THEN
            RAISE;
        END IF;
        PERFORM signoff.defer('turn', p_namespace, p_session_id);
    END;
END $$;

-- As in 0007_limits.sql; a run that cannot be changed is passed over, and unblocked later.
CREATE OR REPLACE FUNCTION signoff.slot_freed(p_namespace text, p_group text, p_slots text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    following record;
    last_limit integer := 0;
    refused text[] := '{}';
BEGIN
    IF p_slots IS NULL THEN
        PERFORM FROM signoff.groups
        WHERE name = p_group AND namespace = p_namespace AND max_running IS NOT NULL;
        IF FOUND THEN
            PERFORM signoff.tell_workers();
        END IF;
        RETURN;
    END IF;
    PERFORM signoff.lock_slots(p_slots);
    LOOP
        SELECT id, namespace, concurrency_limit INTO following FROM signoff.runs
        WHERE slots = p_slots AND blocked AND concurrency_limit > last_limit AND id <> ALL (refused)
        ORDER BY concurrency_limit, priority DESC, ready_at, number LIMIT 1;
        EXIT WHEN NOT FOUND;
        BEGIN
            UPDATE signoff.runs SET blocked = false WHERE id = following.id AND namespace = following.namespace;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'the database has left its row as it was';
            END IF;
            last_limit := following.concurrency_limit;
        EXCEPTION WHEN OTHERS THEN
            IF NOT signoff.is_of_row(SQLSTATE) THEN
                RAISE;
            END IF;
            PERFORM signoff.defer('slot', following.namespace, following.id);
            refused := refused || following.id;
        END;
    END LOOP;
    PERFORM signoff.tell_workers();
END $$;

-- Leave a message for a run that joined what was settled; later, if its row cannot be changed.
CREATE FUNCTION signoff.leave_or_defer(
    p_namespace text, p_run_id text, p_now double precision, p_n integer, p_name text, p_state text, p_value text,
    p_error text, p_by text DEFAULT NULL, p_note text DEFAULT NULL
) RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN signoff.leave(
        p_namespace, p_run_id, 'settled', p_now, p_n, p_name, p_state, p_value, p_error, p_by, p_note
    );
EXCEPTION WHEN OTHERS THEN
    IF NOT signoff.is_of_row(SQLSTATE) THEN
        RAISE;
    END IF;
    PERFORM signoff.defer('message', p_namespace, p_run_id, p_n, jsonb_build_object(
        'name', p_name, 'state', p_state, 'value', p_value, 'error', p_error, 'by', p_by, 'note', p_note
    ));
    RETURN '{}';
END $$;

-- As in 0003_messages.sql.
CREATE OR REPLACE FUNCTION signoff.tell_waiters(p_promise signoff.promises, p_now double precision) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    waiter record;
    woken text[] := '{}';
BEGIN
    FOR waiter IN
        SELECT run_id, n FROM signoff.waiters
        WHERE shard = p_promise.shard AND namespace = p_promise.namespace AND target = 'promise'
            AND target_id = p_promise.id
        ORDER BY run_id, n
    LOOP
        woken := woken || signoff.leave_or_defer(
            p_promise.namespace, waiter.run_id, p_now, waiter.n, p_promise.id, p_promise.state, p_promise.value, NULL,
            p_promise.settled_by, p_promise.note
        );
    END LOOP;
    RETURN woken;
END $$;

-- As in 0004_writes.sql.
CREATE OR REPLACE FUNCTION signoff.finish(p_run signoff.runs, p_now double precision) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    waiter record;
    woken text[];
BEGIN
    IF p_run.wakes > 0 THEN
        DELETE FROM signoff.messages WHERE run_id = p_run.id AND namespace = p_run.namespace;
    END IF;
    woken := signoff.close_all(p_run.namespace, p_run.id, p_now);
    IF p_run.parent_id IS NOT NULL AND p_run.parent_n IS NOT NULL THEN
        woken := woken || signoff.tell_end(
            p_run.namespace, p_run.parent_id, p_run.parent_n, p_run.id, p_run.state, p_run.result, p_run.error, p_now
        );
    END IF;
    FOR waiter IN
        SELECT run_id, n FROM signoff.waiters
        WHERE shard = p_run.id AND namespace = p_run.namespace AND target = 'run' AND target_id = p_run.id
        ORDER BY run_id, n
    LOOP
        woken := woken || signoff.leave_or_defer(
            p_run.namespace, waiter.run_id, p_now, waiter.n, p_run.id, p_run.state, p_run.result, p_run.error
        );
    END LOOP;
    RETURN woken;
END $$;

-- Cancel a child of a run; later, if its row cannot be changed.
CREATE FUNCTION signoff.cancel_or_defer(
    p_namespace text, p_run_id text, p_by text, p_error text, p_now double precision
) RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
    RETURN signoff.cancel(p_namespace, p_run_id, NULL, p_by, p_error, p_now);
EXCEPTION WHEN OTHERS THEN
    IF NOT signoff.is_of_row(SQLSTATE) THEN
        RAISE;
    END IF;
    PERFORM signoff.defer('cancel', p_namespace, p_run_id, -1, jsonb_build_object('by', p_by, 'error', p_error));
    RETURN '{"woken": [], "ended": false}';
END $$;

-- As in 0004_writes.sql.
CREATE OR REPLACE FUNCTION signoff.cancel_child(
    p_namespace text, p_parent_id text, p_run_id text, p_error text, p_now double precision
) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    owner text;
    cancelled jsonb;
BEGIN
    SELECT parent_id INTO owner FROM signoff.runs WHERE id = p_run_id AND namespace = p_namespace;
    IF NOT FOUND THEN
        RETURN '{}';
    END IF;
    IF owner = p_parent_id THEN
        cancelled := signoff.cancel_or_defer(p_namespace, p_run_id, 'run:' || p_parent_id, p_error, p_now);
        RETURN ARRAY(SELECT jsonb_array_elements_text(cancelled -> 'woken'));
    END IF;
    DELETE FROM signoff.waiters
    WHERE shard = p_run_id AND namespace = p_namespace AND target = 'run' AND target_id = p_run_id
        AND run_id = p_parent_id;
    RETURN '{}';
END $$;

-- As in 0024_suspension.sql.
CREATE OR REPLACE FUNCTION signoff.terminate(p_op jsonb, p_now double precision) RETURNS jsonb
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
        cancelled := signoff.cancel_or_defer(
            v_namespace, child.id, 'run:' || v_run_id,
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

-- Make one deferred change. Returns {"woken": ids, "ended": ids}, or NULL where another process has what it needs locked.
CREATE FUNCTION signoff.make_deferred(p_change signoff.deferred, p_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
    cancelled jsonb;
BEGIN
    IF p_change.kind = 'turn' THEN
        IF NOT signoff.try_lock_slots(signoff.turns_of(p_change.namespace, p_change.id)) THEN
            RETURN NULL;
        END IF;
        PERFORM signoff.take_turn(p_change.namespace, p_change.id, p_now);
        RETURN '{}';
    END IF;
    SELECT * INTO run FROM signoff.runs
    WHERE id = p_change.id AND namespace = p_change.namespace AND signoff.try_lock_slots(slots)
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        PERFORM FROM signoff.runs WHERE id = p_change.id AND namespace = p_change.namespace;
        RETURN CASE WHEN FOUND THEN NULL ELSE '{}' END::jsonb;  -- it was deleted
    END IF;
    CASE p_change.kind
    WHEN 'slot' THEN
        IF run.blocked AND signoff.slots_taken(run.slots, run.concurrency_limit) < run.concurrency_limit THEN
            UPDATE signoff.runs SET blocked = false WHERE id = run.id AND namespace = run.namespace;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'the database has left its row as it was';
            END IF;
        END IF;
        RETURN '{}';
    WHEN 'message' THEN
        RETURN jsonb_build_object('woken', to_jsonb(signoff.leave(
            run.namespace, run.id, 'settled', p_now, p_change.n, p_change.details ->> 'name',
            p_change.details ->> 'state', p_change.details ->> 'value', p_change.details ->> 'error',
            p_change.details ->> 'by', p_change.details ->> 'note'
        )));
    WHEN 'cancel' THEN
        IF run.session_id IS NOT NULL
            AND NOT signoff.try_lock_slots(signoff.turns_of(run.namespace, run.session_id)) THEN
            RETURN NULL;
        END IF;
        PERFORM FROM signoff.runs WHERE id = run.parent_id AND namespace = run.namespace
        FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND AND EXISTS (
            SELECT FROM signoff.runs WHERE id = run.parent_id AND namespace = run.namespace
        ) THEN
            RETURN NULL;
        END IF;
        cancelled := signoff.cancel(
            run.namespace, run.id, NULL, p_change.details ->> 'by', p_change.details ->> 'error', p_now
        );
        RETURN jsonb_build_object('woken', cancelled -> 'woken') || CASE
            WHEN (cancelled -> 'ended')::boolean THEN jsonb_build_object('ended', jsonb_build_array(run.id))
            ELSE '{}'
        END;
    END CASE;
END $$;

-- Make deferred changes one by one, but for those of `p_skipped` (see signoff.item_name). Returns {"made": [[namespace,
-- {"woken": ..., "ended": ...}], ...], "failures": [[namespace, id, SQLSTATE, error], ...], "is_all": ...}.
CREATE FUNCTION signoff.make_deferred_each(p_now double precision, p_limit integer, p_skipped jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_now constant double precision := coalesce(p_now, extract(epoch FROM clock_timestamp()));
    change signoff.deferred;
    touched jsonb;
    tried integer := 0;
    made jsonb := '[]';
    failures jsonb := '[]';
BEGIN
    FOR change IN
        SELECT * FROM signoff.deferred
        WHERE NOT p_skipped ? signoff.item_name(namespace, id)
        ORDER BY number LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    LOOP
        tried := tried + 1;
        BEGIN
            touched := signoff.make_deferred(change, v_now);
            IF touched IS NOT NULL THEN
                DELETE FROM signoff.deferred
                WHERE id = change.id AND namespace = change.namespace AND kind = change.kind AND n = change.n;
                made := made || jsonb_build_array(jsonb_build_array(change.namespace, touched));
            END IF;
        EXCEPTION WHEN OTHERS THEN
            IF NOT signoff.is_of_row(SQLSTATE) THEN
                RAISE;
            END IF;
            failures := failures || jsonb_build_array(
                jsonb_build_array(change.namespace, change.id, SQLSTATE, SQLERRM)
            );
        END;
    END LOOP;
    RETURN jsonb_build_object('made', made, 'failures', failures, 'is_all', tried < p_limit);
END $$;
CALL signoff.plan_by_index('signoff.make_deferred_each');
