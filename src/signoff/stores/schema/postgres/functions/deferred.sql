-- Deferred changes: changes of runs that follow from those of other runs, and that the database refused to make.

CREATE OR REPLACE FUNCTION signoff.defer(
    p_kind text, p_namespace text, p_id text, p_n integer DEFAULT -1, p_details jsonb DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.deferred (kind, namespace, id, n, details) VALUES (p_kind, p_namespace, p_id, p_n, p_details)
    ON CONFLICT DO NOTHING;
END $$;

-- Make one deferred change. Returns {"woken": ids, "ended": ids}, or NULL where another process has what it needs locked.
CREATE OR REPLACE FUNCTION signoff.make_deferred(p_change signoff.deferred, p_now double precision) RETURNS jsonb
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

-- Make deferred changes one by one whose time has come. One that fails is left alone for a second, then for two, four and
-- so on, up to `p_longest` seconds; one whose rows another process has locked, for a second. Returns {"made": [[namespace,
-- {"woken": ..., "ended": ...}], ...], "failures": [[namespace, id, failures, first_at, next_at, SQLSTATE, error], ...],
-- "is_all": ...}.
CREATE OR REPLACE FUNCTION signoff.make_deferred_each(p_now double precision, p_limit integer, p_longest double precision)
RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_now constant double precision := coalesce(p_now, extract(epoch FROM clock_timestamp()));
    change signoff.deferred;
    touched jsonb;
    v_code text;
    v_error text;
    tried integer := 0;
    made jsonb := '[]';
    failures jsonb := '[]';
BEGIN
    FOR change IN
        SELECT * FROM signoff.deferred
        WHERE next_at <= v_now OR next_at > v_now + p_longest  -- the clock was set back
        ORDER BY next_at, number LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    LOOP
        tried := tried + 1;
        touched := NULL;
        v_code := NULL;
        BEGIN
            touched := signoff.make_deferred(change, v_now);
            IF touched IS NOT NULL THEN
                DELETE FROM signoff.deferred
                WHERE id = change.id AND namespace = change.namespace AND kind = change.kind AND n = change.n;
                IF NOT FOUND THEN
                    RAISE EXCEPTION 'the database has left its row as it was';
                END IF;
            END IF;
        EXCEPTION WHEN OTHERS THEN
            IF NOT signoff.is_of_row(SQLSTATE) THEN
                RAISE;
            END IF;
            v_code := SQLSTATE;
            v_error := left(SQLERRM, 2000);
        END;
        IF v_code IS NOT NULL THEN
            change.next_at := v_now + least(power(2, least(change.failures, 20)), p_longest);
            change.failures := change.failures + 1;
            change.first_at := coalesce(change.first_at, v_now);
            UPDATE signoff.deferred
            SET failures = change.failures, first_at = change.first_at, next_at = change.next_at, code = v_code,
                error = v_error
            WHERE id = change.id AND namespace = change.namespace AND kind = change.kind AND n = change.n;
            failures := failures || jsonb_build_array(jsonb_build_array(
                change.namespace, change.id, change.failures, change.first_at, change.next_at, v_code, v_error
            ));
        ELSIF touched IS NULL THEN
            UPDATE signoff.deferred SET next_at = v_now + 1
            WHERE id = change.id AND namespace = change.namespace AND kind = change.kind AND n = change.n;
        ELSE
            made := made || jsonb_build_array(jsonb_build_array(change.namespace, touched));
        END IF;
    END LOOP;
    RETURN jsonb_build_object('made', made, 'failures', failures, 'is_all', tried < p_limit);
END $$;
CALL signoff.plan_by_index('signoff.make_deferred_each');

-- Of deferred changes: when the first is tried, and when the last is. NULL without one.
CREATE OR REPLACE FUNCTION signoff.deferred_times(OUT first_at double precision, OUT last_at double precision)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT next_at INTO first_at FROM signoff.deferred ORDER BY next_at LIMIT 1;
    SELECT next_at INTO last_at FROM signoff.deferred ORDER BY next_at DESC LIMIT 1;
END $$;
CALL signoff.plan_by_index('signoff.deferred_times');
