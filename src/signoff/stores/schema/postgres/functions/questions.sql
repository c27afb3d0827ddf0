-- Questions: their inboxes, and amendments. Inboxes follow the questions by triggers (triggers.sql).

CREATE OR REPLACE FUNCTION signoff.fill_inboxes(p_question signoff.promises) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.inbox (shard, namespace, question_id, assignee, number)
    SELECT DISTINCT p_question.shard, p_question.namespace, p_question.id, assignee, p_question.number
    FROM unnest(CASE p_question.assignees WHEN '{}' THEN ARRAY[''] ELSE p_question.assignees END) AS assignee;
END $$;

CREATE OR REPLACE FUNCTION signoff.empty_inboxes(p_question signoff.promises) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM signoff.inbox
    WHERE shard = p_question.shard AND namespace = p_question.namespace AND question_id = p_question.id;
END $$;

-- Pending questions that one of these names may answer, oldest first. Of each name's part of the inbox no more is read
-- than is shown, however few entries most names have and however many one has: so each is read in the order of its index.
CREATE OR REPLACE FUNCTION signoff.answerable(p_namespace text, p_names text[], p_after bigint, p_limit integer)
RETURNS SETOF signoff.promises
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
        SELECT question.* FROM (
            SELECT DISTINCT listed.number, listed.shard, listed.question_id
            FROM unnest(p_names) AS name
            CROSS JOIN LATERAL (
                SELECT number, shard, question_id FROM signoff.inbox
                WHERE assignee = name AND namespace = p_namespace AND number > p_after
                ORDER BY number LIMIT p_limit
            ) AS listed
            ORDER BY listed.number LIMIT p_limit
        ) AS shown
        CROSS JOIN LATERAL (
            SELECT * FROM signoff.promises
            WHERE shard = shown.shard AND namespace = p_namespace AND id = shown.question_id OFFSET 0
        ) AS question
        ORDER BY question.number;
END $$;
CALL signoff.plan_by_index('signoff.answerable');

-- Change what a pending question keeps, or its deadline, settle it if that is asked for, make and use rules, leave a
-- signal, and record events; one whose time has passed is timed out instead. Returns the question, whether this call (or
-- the one with this token before it) amended it, and who was woken.
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
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the database has left its row as it was';
    END IF;
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
