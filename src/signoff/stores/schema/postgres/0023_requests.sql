-- Request ids of answers, to know a repetition in the whole execution: a run, or all runs of its session.
-- ``name`` is the signal's name, or the promise that was answered; ``value`` is NULL for an answer.

ALTER TABLE signoff.requests ALTER COLUMN value DROP NOT NULL;
ALTER TABLE signoff.requests ADD COLUMN session_id text COLLATE "C";

CREATE INDEX requests_of_session ON signoff.requests (session_id, namespace, request_id)
WHERE session_id IS NOT NULL AND value IS NULL;

-- What else of its execution a request id was used for: another promise, or a signal. NULL: nothing else.
CREATE FUNCTION signoff.used_for(
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
CREATE FUNCTION signoff.note_answer(
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

-- As in 0018_origins.sql, with the request ids of the execution.

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

-- As in 0022_signals_with_answers.sql, with the request ids of the execution.

CREATE OR REPLACE FUNCTION signoff.amend(
    p_namespace text, p_id text, p_amendment jsonb, p_token text, p_now double precision
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    question signoff.promises;
    settlement constant jsonb := p_amendment -> 'settlement';
    signal constant jsonb := p_amendment -> 'signal';
    woken text[] := '{}';
    settled jsonb;
    request_id constant text := coalesce(p_amendment ->> 'request_id', settlement ->> 'request_id');
    used_for text;
BEGIN
    SELECT * INTO question FROM signoff.promises
    WHERE shard = signoff.shard_of(p_id) AND namespace = p_namespace AND id = p_id
    FOR NO KEY UPDATE;
    IF NOT FOUND OR question.kind <> 'question' THEN
        RETURN '{}';
    END IF;
    PERFORM FROM signoff.amendments
    WHERE shard = question.shard AND namespace = p_namespace AND question_id = p_id AND token = p_token;
    IF FOUND THEN
        RETURN jsonb_build_object('promise', signoff.promise_values(question), 'amended', true);
    END IF;
    IF question.state = 'pending' AND question.due_at <= p_now THEN
        RETURN signoff.settle(p_namespace, p_id, 'question', NULL, NULL, p_now) || '{"amended": false}';
    END IF;
    IF question.state <> 'pending' OR question.version <> (p_amendment ->> 'version')::integer THEN
        RETURN jsonb_build_object('promise', signoff.promise_values(question), 'amended', false);
    END IF;
    used_for := signoff.used_for(p_namespace, question.run_id, request_id, p_id);
    IF used_for IS NOT NULL THEN
        RETURN jsonb_build_object('conflict', jsonb_build_array(request_id, used_for));
    END IF;
    IF p_amendment ? 'by_rule' AND NOT signoff.use_rule(p_namespace, p_amendment ->> 'by_rule', p_now) THEN
        RETURN jsonb_build_object('promise', signoff.promise_values(question), 'amended', false);
    END IF;
    IF p_amendment ? 'rule' AND NOT signoff.make_rule(p_namespace, p_amendment -> 'rule', p_now) THEN
        RETURN jsonb_build_object('promise', signoff.promise_values(question), 'amended', false);
    END IF;
    INSERT INTO signoff.amendments (shard, namespace, question_id, token)
    VALUES (question.shard, p_namespace, p_id, p_token);
    UPDATE signoff.promises
    SET version = version + 1, progress = p_amendment ->> 'progress',
        assignees = ARRAY(SELECT jsonb_array_elements_text(p_amendment -> 'assignees')),
        act_at = (p_amendment ->> 'act_at')::double precision,
        due_at = coalesce((p_amendment ->> 'due_at')::double precision, due_at)
    WHERE shard = question.shard AND namespace = p_namespace AND id = p_id
    RETURNING * INTO question;
    PERFORM signoff.note_answer(p_namespace, question.run_id, p_amendment ->> 'request_id', p_id);
    PERFORM signoff.record(p_namespace, p_amendment -> 'events', p_now);
    IF signal IS NOT NULL THEN
        woken := signoff.leave(
            p_namespace, signal ->> 'run_id', 'signal', p_now, p_name => signal ->> 'name',
            p_value => signal ->> 'value', p_by => signal ->> 'by'
        );
    END IF;
    IF settlement IS NULL THEN
        RETURN jsonb_build_object('promise', signoff.promise_values(question), 'amended', true, 'woken', woken);
    END IF;
    settled := signoff.settle(p_namespace, p_id, 'question', settlement, NULL, p_now);
    RETURN settled || jsonb_build_object('amended', true, 'woken', (settled -> 'woken') || to_jsonb(woken));
END $$;
