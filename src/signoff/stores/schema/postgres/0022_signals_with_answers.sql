-- An answer may leave a signal for a run, which is there before anybody is told of the answer.

-- The runs that an operation changes, as far as that can be known before.
CREATE OR REPLACE FUNCTION signoff.concerned(p_op jsonb) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_write constant jsonb := p_op -> 'write';
    v_run_id constant text := coalesce(v_write ->> 'run_id', p_op ->> 'run_id');
    settles constant boolean := p_op ->> 'op' IN ('settle', 'amend');  -- or may do so
    ids text[] := ARRAY[v_run_id, p_op #>> '{amendment,signal,run_id}'];
BEGIN
    IF v_write ? 'outcome' OR p_op ->> 'op' = 'cancel' THEN
        ids := ids || ARRAY(
            SELECT parent_id FROM signoff.runs
            WHERE id = v_run_id AND namespace = v_namespace
        ) || ARRAY(
            SELECT run_id FROM signoff.waiters
            WHERE shard = v_run_id AND namespace = v_namespace AND target = 'run' AND target_id = v_run_id
        );
    END IF;
    IF v_write ? 'cancels' THEN
        ids := ids || ARRAY(SELECT value ->> 'id' FROM jsonb_array_elements(v_write -> 'cancels'));
    END IF;
    IF v_write ? 'closes' OR settles THEN
        ids := ids || ARRAY(
            SELECT waiters.run_id
            FROM jsonb_array_elements_text(
                coalesce(v_write -> 'closes', jsonb_build_array(p_op -> 'promise_id'))
            ) AS promise_id
            JOIN signoff.waiters
                ON waiters.shard = signoff.shard_of(promise_id) AND waiters.namespace = v_namespace
                AND waiters.target = 'promise' AND waiters.target_id = promise_id
        );
    END IF;
    IF settles THEN
        ids := ids || ARRAY(
            SELECT run_id FROM signoff.promises
            WHERE shard = signoff.shard_of(p_op ->> 'promise_id') AND namespace = v_namespace
                AND id = p_op ->> 'promise_id'
        );
    END IF;
    RETURN array_remove(ids, NULL);
END $$;

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
