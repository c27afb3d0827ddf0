-- From where promises were settled, and everything else came that is recorded of questions. JSON.

ALTER TABLE signoff.promises ADD COLUMN origin text;
ALTER TABLE signoff.audit ADD COLUMN origin text;

-- As in 0010_people.sql, with the origin.

CREATE OR REPLACE FUNCTION signoff.promise_values(p_promise signoff.promises) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_array(
        (p_promise).namespace, (p_promise).id, (p_promise).kind, (p_promise).state, (p_promise).created_at,
        (p_promise).run_id, (p_promise).n, (p_promise).due_at, (p_promise).data, (p_promise).value,
        (p_promise).settled_at, (p_promise).settled_by, (p_promise).note, (p_promise).request_id,
        (p_promise).assignees, (p_promise).act_at, (p_promise).version, (p_promise).progress, (p_promise).origin
    )
$$;

CREATE OR REPLACE FUNCTION signoff.record_state(
    p_question signoff.promises, p_kind text, p_at double precision, p_details json
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.audit (shard, namespace, id, at, kind, question_id, run_id, by, details, origin)
    VALUES (
        p_question.shard, p_question.namespace, replace(gen_random_uuid()::text, '-', ''), p_at, p_kind,
        p_question.id, p_question.run_id, p_question.settled_by, p_details::text, p_question.origin
    );
END $$;

CREATE OR REPLACE FUNCTION signoff.record(p_namespace text, p_events jsonb, p_now double precision) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.audit (shard, namespace, id, at, kind, question_id, run_id, by, details, origin)
    SELECT signoff.shard_of(question_id), p_namespace, id, p_now, kind, question_id, run_id, by, details, origin
    FROM jsonb_to_recordset(p_events) AS new (
        id text, kind text, question_id text, run_id text, by text, details text, origin text
    )
    ON CONFLICT (shard, namespace, id) DO NOTHING;
END $$;

-- As in 0003_messages.sql and 0006_time.sql, with the origin.

CREATE OR REPLACE FUNCTION signoff.settle(
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
    END IF;
    RETURN jsonb_build_object(
        'promise', signoff.promise_values(promise), 'settled', late IS NOT TRUE,
        'woken', signoff.tell_all(promise, p_now)
    );
END $$;

CREATE OR REPLACE FUNCTION signoff.time_out_promises(p_now double precision, p_limit integer)
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
        UPDATE signoff.promises AS promises
        SET state = 'timed_out', settled_at = p_now, origin = '{"way":"timer"}'
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
