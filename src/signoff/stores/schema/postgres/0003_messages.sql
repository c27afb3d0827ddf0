-- Telling runs what came for them, and promises. Functions return the ids of the runs that were left a message.

-- Leave a message for a run and wake it. One that has ended gets none.
CREATE FUNCTION signoff.leave(
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

-- Tell call n of a run how a promise was settled.
CREATE FUNCTION signoff.tell(p_promise signoff.promises, p_run_id text, p_n integer, p_now double precision)
RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN signoff.leave(
        p_promise.namespace, p_run_id, 'settled', p_now, p_n, p_promise.id, p_promise.state, p_promise.value, NULL,
        p_promise.settled_by, p_promise.note
    );
END $$;

-- Tell those who joined a promise how it was settled.
CREATE FUNCTION signoff.tell_waiters(p_promise signoff.promises, p_now double precision) RETURNS text[]
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
        woken := woken || signoff.tell(p_promise, waiter.run_id, waiter.n, p_now);
    END LOOP;
    RETURN woken;
END $$;

CREATE FUNCTION signoff.tell_all(p_promise signoff.promises, p_now double precision) RETURNS text[]
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
CREATE FUNCTION signoff.tell_end(
    p_namespace text, p_run_id text, p_n integer, p_ended_id text, p_state text, p_result text, p_error text,
    p_now double precision
) RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN signoff.leave(
        p_namespace, p_run_id, 'settled', p_now, p_n, p_ended_id, p_state, p_result, p_error
    );
END $$;

-- Leave an error as the outcome of a call, unless it is left already.
CREATE FUNCTION signoff.refuse(
    p_namespace text, p_run_id text, p_n integer, p_name text, p_state text, p_error text, p_now double precision
) RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM signoff.messages
    WHERE run_id = p_run_id AND namespace = p_namespace AND kind = 'settled' AND n = p_n AND name = p_name;
    IF FOUND THEN
        RETURN '{}';
    END IF;
    RETURN signoff.leave(p_namespace, p_run_id, 'settled', p_now, p_n, p_name, p_state, NULL, p_error);
END $$;

-- Create a promise. Returns nothing if the id is taken.
CREATE FUNCTION signoff.create_promise_row(
    p_namespace text, p_run_id text, p_new jsonb, p_token text, p_now double precision
) RETURNS SETOF signoff.promises
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        INSERT INTO signoff.promises (
            shard, namespace, id, kind, state, created_at, run_id, n, due_at, data, create_token, assignees, act_at
        )
        SELECT signoff.shard_of(id), p_namespace, id, kind, 'pending', p_now, p_run_id,
            CASE WHEN p_run_id IS NOT NULL THEN n END, due_at, data, p_token,
            coalesce(assignees, '{}'), act_at
        FROM jsonb_to_record(p_new) AS new (
            id text, kind text, n integer, due_at double precision, data text, assignees text[],
            act_at double precision
        )
        ON CONFLICT (shard, namespace, id) DO NOTHING
        RETURNING *;
END $$;

-- Create a promise of a run, or let the run join the plain one that has the id: questions are never joined.
CREATE FUNCTION signoff.open_promise(p_namespace text, p_run_id text, p_new jsonb, p_now double precision)
RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    promise signoff.promises;
    new_n constant integer := (p_new ->> 'n')::integer;
BEGIN
    PERFORM signoff.create_promise_row(p_namespace, p_run_id, p_new, NULL, p_now);
    IF FOUND THEN
        RETURN '{}';
    END IF;
    -- Locked: whoever settles it from now on sees that we wait.
    SELECT * INTO promise FROM signoff.promises
    WHERE shard = signoff.shard_of(p_new ->> 'id') AND namespace = p_namespace AND id = p_new ->> 'id'
    FOR SHARE;
    IF NOT FOUND THEN  -- it was deleted just now
        RETURN signoff.open_promise(p_namespace, p_run_id, p_new, p_now);
    END IF;
    IF promise.run_id = p_run_id AND promise.n = new_n THEN
        RETURN '{}';
    END IF;
    IF 'question' IN (promise.kind, p_new ->> 'kind') THEN
        RETURN signoff.refuse(
            p_namespace, p_run_id, new_n, promise.id, 'rejected', p_new ->> 'conflict', p_now
        );
    END IF;
    INSERT INTO signoff.waiters (shard, namespace, target, target_id, run_id, n)
    VALUES (promise.shard, p_namespace, 'promise', promise.id, p_run_id, new_n)
    ON CONFLICT DO NOTHING;
    IF FOUND AND promise.state <> 'pending' THEN
        RETURN signoff.tell(promise, p_run_id, new_n, p_now);
    END IF;
    RETURN '{}';
END $$;

-- Cancel a promise of a run that it waits for no longer, or let it leave one that it had joined.
CREATE FUNCTION signoff.close_promise(p_namespace text, p_run_id text, p_id text, p_now double precision)
RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    promise signoff.promises;
BEGIN
    UPDATE signoff.promises SET state = 'cancelled', settled_at = p_now
    WHERE shard = signoff.shard_of(p_id) AND namespace = p_namespace AND id = p_id AND run_id = p_run_id
        AND settled_at IS NULL
    RETURNING * INTO promise;
    IF FOUND THEN
        RETURN signoff.tell_waiters(promise, p_now);
    END IF;
    DELETE FROM signoff.waiters
    WHERE shard = signoff.shard_of(p_id) AND namespace = p_namespace AND target = 'promise' AND target_id = p_id
        AND run_id = p_run_id;
    RETURN '{}';
END $$;

-- Cancel the pending promises of a run that has ended.
CREATE FUNCTION signoff.close_all(p_namespace text, p_run_id text, p_now double precision) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    promise signoff.promises;
    woken text[] := '{}';
BEGIN
    FOR promise IN
        UPDATE signoff.promises SET state = 'cancelled', settled_at = p_now
        WHERE run_id = p_run_id AND namespace = p_namespace AND settled_at IS NULL
        RETURNING *
    LOOP
        woken := woken || signoff.tell_waiters(promise, p_now);
    END LOOP;
    RETURN woken;
END $$;

-- Settle a pending promise and tell the runs that wait for it; one whose time has passed is timed out instead, and one of
-- another version than the settlement says is left as it is.
-- Returns the promise, whether this call (or the one with this token before it) settled it, and who was woken.
CREATE FUNCTION signoff.settle(
    p_namespace text, p_id text, p_kind text, p_settlement jsonb, p_token text, p_now double precision
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    promise signoff.promises;
    late boolean;
BEGIN
    SELECT * INTO promise FROM signoff.promises
    WHERE shard = signoff.shard_of(p_id) AND namespace = p_namespace AND id = p_id
    FOR NO KEY UPDATE;
    IF NOT FOUND OR promise.kind <> p_kind THEN
        RETURN '{}';
    END IF;
    IF promise.state <> 'pending' THEN
        RETURN jsonb_build_object(
            'promise', signoff.promise_values(promise), 'settled', promise.settle_token = p_token
        );
    END IF;
    late := promise.due_at <= p_now;
    IF late IS NOT TRUE AND promise.version <> (p_settlement ->> 'version')::integer THEN
        RETURN jsonb_build_object('promise', signoff.promise_values(promise), 'settled', false);
    END IF;
    IF late THEN
        UPDATE signoff.promises SET state = 'timed_out', settled_at = p_now
        WHERE shard = promise.shard AND namespace = p_namespace AND id = p_id
        RETURNING * INTO promise;
    ELSE
        UPDATE signoff.promises
        SET state = p_settlement ->> 'state', value = p_settlement ->> 'value', settled_at = p_now,
            settled_by = p_settlement ->> 'by', note = p_settlement ->> 'note',
            request_id = p_settlement ->> 'request_id', settle_token = p_token
        WHERE shard = promise.shard AND namespace = p_namespace AND id = p_id
        RETURNING * INTO promise;
    END IF;
    RETURN jsonb_build_object(
        'promise', signoff.promise_values(promise), 'settled', late IS NOT TRUE,
        'woken', signoff.tell_all(promise, p_now)
    );
END $$;

-- Leave a signal. Returns the state of a run that has ended, or the request that had this id.
CREATE FUNCTION signoff.signal(
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
