-- Messages to runs: what came for them. Functions return the ids of the runs that were left a message.

-- Leave a message for a run and wake it. One that has ended gets none.
CREATE OR REPLACE FUNCTION signoff.leave(
    p_namespace text, p_run_id text, p_kind text, p_now double precision, p_n integer DEFAULT NULL,
    p_name text DEFAULT NULL, p_state text DEFAULT NULL, p_value text DEFAULT NULL, p_error text DEFAULT NULL,
    p_by text DEFAULT NULL, p_note text DEFAULT NULL
) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    count_now integer := signoff.wake_row(p_namespace, p_run_id, p_now);
BEGIN
    IF count_now IS NULL THEN
        RETURN '{}';
    END IF;
    INSERT INTO signoff.messages (run_id, namespace, id, kind, at, n, name, state, value, error, by, note)
    VALUES (p_run_id, p_namespace, count_now, p_kind, p_now, p_n, p_name, p_state, p_value, p_error, p_by, p_note);
    RETURN ARRAY[p_run_id];
END $$;

-- Leave a message for a run that joined what was settled; later, if its row cannot be changed.
CREATE OR REPLACE FUNCTION signoff.leave_or_defer(
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

-- Tell call n of a run how a promise was settled.
CREATE OR REPLACE FUNCTION signoff.tell(p_promise signoff.promises, p_run_id text, p_n integer, p_now double precision)
RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN signoff.leave(
        p_promise.namespace, p_run_id, 'settled', p_now, p_n, p_promise.id, p_promise.state, p_promise.value, NULL,
        p_promise.settled_by, p_promise.note
    );
END $$;

-- Leave messages for the runs that joined what was settled.
CREATE OR REPLACE FUNCTION signoff.tell_joined(
    p_namespace text, p_run_ids text[], p_ns integer[], p_now double precision, p_name text, p_state text, p_value text,
    p_error text, p_by text DEFAULT NULL, p_note text DEFAULT NULL
) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    woken text[] := '{}';
BEGIN
    IF cardinality(p_run_ids) > 1 THEN
        BEGIN
            FOR place IN 1 .. cardinality(p_run_ids) LOOP
                woken := woken || signoff.leave(
                    p_namespace, p_run_ids[place], 'settled', p_now, p_ns[place], p_name, p_state, p_value, p_error, p_by,
                    p_note
                );
            END LOOP;
            RETURN woken;
        EXCEPTION WHEN OTHERS THEN
            IF NOT signoff.is_of_row(SQLSTATE) THEN
                RAISE;
            END IF;
            woken := '{}';
        END;
    END IF;
    FOR place IN 1 .. cardinality(p_run_ids) LOOP
        woken := woken || signoff.leave_or_defer(
            p_namespace, p_run_ids[place], p_now, p_ns[place], p_name, p_state, p_value, p_error, p_by, p_note
        );
    END LOOP;
    RETURN woken;
END $$;

-- Tell those who joined a promise how it was settled, and the tasks and addresses that await it.
CREATE OR REPLACE FUNCTION signoff.tell_waiters(p_promise signoff.promises, p_now double precision) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    run_ids text[];
    ns integer[];
    woken text[] := '{}';
BEGIN
    SELECT array_agg(run_id ORDER BY run_id, n), array_agg(n ORDER BY run_id, n) INTO run_ids, ns
    FROM signoff.waiters
    WHERE shard = p_promise.shard AND namespace = p_promise.namespace AND target = 'promise'
        AND target_id = p_promise.id;
    IF run_ids IS NOT NULL THEN
        woken := signoff.tell_joined(
            p_promise.namespace, run_ids, ns, p_now, p_promise.id, p_promise.state, p_promise.value, NULL,
            p_promise.settled_by, p_promise.note
        );
    END IF;
    PERFORM signoff.settle_tasks(p_promise, p_now);
    RETURN woken;
END $$;

CREATE OR REPLACE FUNCTION signoff.tell_all(p_promise signoff.promises, p_now double precision) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    woken text[] := '{}';
BEGIN
    IF p_promise.run_id IS NOT NULL THEN
        woken := signoff.tell(p_promise, p_promise.run_id, p_promise.n, p_now);
    END IF;
    RETURN woken || signoff.tell_waiters(p_promise, p_now);
END $$;

-- Tell call n of a run how another run ended.
CREATE OR REPLACE FUNCTION signoff.tell_end(
    p_namespace text, p_run_id text, p_n integer, p_ended_id text, p_state text, p_result text, p_error text,
    p_now double precision
) RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN signoff.leave(
        p_namespace, p_run_id, 'settled', p_now, p_n, p_ended_id, p_state, p_result, p_error
    );
END $$;

-- Leave a signal. Returns the state of a run that has ended, or the request that had this id.
CREATE OR REPLACE FUNCTION signoff.signal(
    p_namespace text, p_run_id text, p_name text, p_value text, p_by text, p_request_id text, p_token text,
    p_now double precision
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
    known record;
BEGIN
    SELECT * INTO run FROM signoff.runs WHERE id = p_run_id AND namespace = p_namespace FOR NO KEY UPDATE;
    SELECT name, value, token INTO known FROM signoff.requests
    WHERE run_id = p_run_id AND namespace = p_namespace AND request_id = p_request_id;
    IF FOUND THEN
        RETURN jsonb_build_object('known', jsonb_build_array(known.name, known.value, known.token));
    END IF;
    IF run.id IS NULL THEN
        RETURN jsonb_build_object('missing', true);
    END IF;
    IF run.ended_at IS NOT NULL AND NOT run.retryable THEN
        RETURN jsonb_build_object('ended', run.state);
    END IF;
    INSERT INTO signoff.requests (run_id, namespace, request_id, name, value, token)
    VALUES (p_run_id, p_namespace, p_request_id, p_name, p_value, p_token);
    RETURN jsonb_build_object(
        'woken',
        signoff.leave(p_namespace, p_run_id, 'signal', p_now, NULL, p_name, NULL, p_value, NULL, p_by)
    );
END $$;
