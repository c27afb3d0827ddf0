-- Promises. Functions return the ids of the runs that were left a message.

-- By what a promise is sharded: 'refund-7' for 'refund-7.3', the id itself for any other.
CREATE OR REPLACE FUNCTION signoff.shard_of(p_id text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(substring(p_id FROM '^(.+)\.[0-9]+$'), p_id)
$$;

-- What a caller gets to know of a promise, in the order of PROMISE_COLUMNS in stores/postgres/rows.py.
CREATE OR REPLACE FUNCTION signoff.promise_values(p_promise signoff.promises) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_array(
        (p_promise).namespace, (p_promise).id, (p_promise).kind, (p_promise).state, (p_promise).created_at,
        (p_promise).run_id, (p_promise).n, (p_promise).due_at, (p_promise).data, (p_promise).value,
        (p_promise).settled_at, (p_promise).settled_by, (p_promise).note, (p_promise).request_id,
        (p_promise).assignees, (p_promise).act_at, (p_promise).version, (p_promise).progress, (p_promise).origin
    )
$$;

-- Leave an error as the outcome of a call, unless it is left already.
CREATE OR REPLACE FUNCTION signoff.refuse(
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

-- Create a promise, with the token of its callback. Returns nothing if the id is taken.
CREATE OR REPLACE FUNCTION signoff.create_promise_row(
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
    IF FOUND AND p_new ? 'callback' THEN
        INSERT INTO signoff.tokens (namespace, id, kind, hash, subject, created_at, question_id)
        SELECT p_namespace, id, 'callback', hash, subject, p_now, p_new ->> 'id'
        FROM jsonb_to_record(p_new -> 'callback') AS callback (id text, hash text, subject text)
        ON CONFLICT DO NOTHING;
    END IF;
END $$;

-- Create a promise of a run, or let the run join the plain one that has the id: questions are never joined.
CREATE OR REPLACE FUNCTION signoff.open_promise(p_namespace text, p_run_id text, p_new jsonb, p_now double precision)
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
CREATE OR REPLACE FUNCTION signoff.close_promise(p_namespace text, p_run_id text, p_id text, p_now double precision)
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
CREATE OR REPLACE FUNCTION signoff.close_all(p_namespace text, p_run_id text, p_now double precision) RETURNS text[]
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

-- What else of its execution a request id was used for: another promise, or a signal. NULL: nothing else.
CREATE OR REPLACE FUNCTION signoff.used_for(
    p_namespace text, p_run_id text, p_request_id text, p_promise_id text
) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    known record;
    v_session_id text;
BEGIN
    IF p_run_id IS NULL OR p_request_id IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT name, value INTO known FROM signoff.requests
    WHERE run_id = p_run_id AND namespace = p_namespace AND request_id = p_request_id;
    IF NOT FOUND THEN
        SELECT session_id INTO v_session_id FROM signoff.runs WHERE id = p_run_id AND namespace = p_namespace;
        IF v_session_id IS NULL THEN
            RETURN NULL;
        END IF;
        SELECT name, value INTO known FROM signoff.requests
        WHERE session_id = v_session_id AND namespace = p_namespace AND request_id = p_request_id
            AND value IS NULL;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    END IF;
    RETURN CASE WHEN known.value IS NULL AND known.name = p_promise_id THEN NULL ELSE known.name END;
END $$;

-- Remember that a request id has answered a promise of a run, or voted on it.
CREATE OR REPLACE FUNCTION signoff.note_answer(
    p_namespace text, p_run_id text, p_request_id text, p_promise_id text
) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO signoff.requests (run_id, namespace, request_id, name, session_id)
    SELECT
        p_run_id, p_namespace, p_request_id, p_promise_id,
        (SELECT session_id FROM signoff.runs WHERE id = p_run_id AND namespace = p_namespace)
    WHERE p_run_id IS NOT NULL AND p_request_id IS NOT NULL
    ON CONFLICT DO NOTHING
$$;

-- Settle a pending promise and tell the runs that wait for it; one whose time has passed is timed out instead, and one of
-- another version than the settlement says is left as it is. Returns the promise, whether this call (or the one with this
-- token before it) settled it, and who was woken.
CREATE OR REPLACE FUNCTION signoff.settle(
    p_namespace text, p_id text, p_kind text, p_settlement jsonb, p_token text, p_now double precision
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    promise signoff.promises;
    late boolean;
    used_for text;
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
    used_for := signoff.used_for(p_namespace, promise.run_id, p_settlement ->> 'request_id', p_id);
    IF late IS NOT TRUE AND used_for IS NOT NULL THEN
        RETURN jsonb_build_object('conflict', jsonb_build_array(p_settlement ->> 'request_id', used_for));
    END IF;
    IF late THEN
        UPDATE signoff.promises SET state = 'timed_out', settled_at = p_now, origin = '{"way":"timer"}'
        WHERE shard = promise.shard AND namespace = p_namespace AND id = p_id
        RETURNING * INTO promise;
    ELSE
        UPDATE signoff.promises
        SET state = p_settlement ->> 'state', value = p_settlement ->> 'value', settled_at = p_now,
            settled_by = p_settlement ->> 'by', note = p_settlement ->> 'note',
            request_id = p_settlement ->> 'request_id', settle_token = p_token,
            origin = p_settlement ->> 'origin'
        WHERE shard = promise.shard AND namespace = p_namespace AND id = p_id
        RETURNING * INTO promise;
        PERFORM signoff.note_answer(p_namespace, promise.run_id, promise.request_id, p_id);
    END IF;
    RETURN jsonb_build_object(
        'promise', signoff.promise_values(promise), 'settled', late IS NOT TRUE,
        'woken', signoff.tell_all(promise, p_now)
    );
END $$;
