-- Many operations of one process in one statement, and so in one transaction and one commit.

-- The runs that a write, or the settlement of a promise, changes, as far as that can be known before.
CREATE OR REPLACE FUNCTION signoff.concerned_by_writes(p_op jsonb) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_write constant jsonb := p_op -> 'write';
    v_run_id constant text := coalesce(v_write ->> 'run_id', p_op ->> 'run_id');
    -- The promises that it settles, or may settle.
    promise_ids constant jsonb := coalesce(
        v_write -> 'closes', p_op -> 'promise_ids',
        CASE WHEN p_op ->> 'op' IN ('settle', 'amend') THEN jsonb_build_array(p_op -> 'promise_id') END
    );
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
    IF promise_ids IS NOT NULL THEN
        ids := ids || ARRAY(
            SELECT waiters.run_id
            FROM jsonb_array_elements_text(promise_ids) AS promise_id
            JOIN signoff.waiters
                ON waiters.shard = signoff.shard_of(promise_id) AND waiters.namespace = v_namespace
                AND waiters.target = 'promise' AND waiters.target_id = promise_id
        );
    END IF;
    IF v_write IS NULL AND promise_ids IS NOT NULL THEN
        ids := ids || ARRAY(
            SELECT promise.run_id FROM jsonb_array_elements_text(promise_ids) AS promise_id
            CROSS JOIN LATERAL (
                SELECT run_id FROM signoff.promises
                WHERE shard = signoff.shard_of(promise_id) AND namespace = v_namespace AND id = promise_id OFFSET 0
            ) AS promise
        );
    END IF;
    RETURN array_remove(ids, NULL);
END $$;

-- The runs that an operation changes, as far as that can be known before. What ends a run concerns more than the run.
CREATE OR REPLACE FUNCTION signoff.concerned(p_op jsonb) RETURNS text[]
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

-- Lock the runs that a batch concerns, in one order for everybody and before anything else: so two batches do not wait for
-- each other in a circle. Sessions' turns come first, and runs that may get one are among those that are locked.
CREATE OR REPLACE FUNCTION signoff.lock_runs(p_appends jsonb, p_operations jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    operation jsonb;
    concerned text[];
    limited record;
    turn record;
    ids text[] := '{}';
    namespaces text[] := '{}';
    all_slots text[] := '{}';
    chains text[] := '{}';  -- the sessions in which runs may begin or end, and where
    chains_in text[] := '{}';
    has_settles boolean := false;
    has_claims boolean := false;
    claims_limited boolean := false;
BEGIN
    FOR place IN 0 .. jsonb_array_length(p_operations) - 1 LOOP
        operation := p_operations -> place;
        concerned := signoff.concerned(operation);
        ids := ids || concerned;
        namespaces := namespaces || array_fill(operation ->> 'namespace', ARRAY[cardinality(concerned)]);
        all_slots := all_slots || signoff.new_slots(operation);
        SELECT chains || array_agg(session_id), chains_in || array_fill(operation ->> 'namespace', ARRAY[count(*)::integer])
        INTO chains, chains_in FROM signoff.chains_of(operation, concerned) AS session_id;
        has_settles := has_settles OR operation ->> 'op' IN ('settle', 'amend') OR operation ? 'promise_ids';
        has_claims := has_claims OR operation ->> 'op' = 'claim';
    END LOOP;
    IF chains <> '{}' THEN
        PERFORM signoff.lock_slots(turns) FROM (
            SELECT DISTINCT signoff.turns_of(namespace, id) AS turns FROM unnest(chains, chains_in) AS listed (id, namespace)
            ORDER BY 1
        ) AS listed;
        FOR turn IN
            SELECT next.id, next.namespace FROM (
                SELECT id, namespace, count(*) AS ending FROM unnest(chains, chains_in) AS listed (id, namespace)
                GROUP BY id, namespace
            ) AS chain
            CROSS JOIN LATERAL (
                SELECT runs.id, runs.namespace FROM signoff.runs AS runs
                WHERE session_id = chain.id AND runs.namespace = chain.namespace AND (ended_at IS NULL OR retryable)
                ORDER BY position LIMIT ending + 1
            ) AS next
        LOOP
            ids := ids || turn.id;
            namespaces := namespaces || turn.namespace;
        END LOOP;
    END IF;
    IF p_appends IS NOT NULL THEN
        ids := ids || ARRAY(SELECT value ->> 'run_id' FROM jsonb_array_elements(p_appends));
        namespaces := namespaces || ARRAY(SELECT value ->> 'namespace' FROM jsonb_array_elements(p_appends));
    END IF;
    IF ids <> '{}' THEN
        all_slots := all_slots || signoff.taken_slots(ids, namespaces);
    END IF;
    IF all_slots <> '{}' THEN
        PERFORM signoff.lock_slots(slots) FROM (SELECT DISTINCT unnest(all_slots) AS slots ORDER BY 1) AS listed;
    END IF;
    IF has_claims THEN
        PERFORM FROM jsonb_array_elements(p_operations) AS claim
        JOIN signoff.groups ON name = claim ->> 'group' AND namespace = claim ->> 'namespace'
        WHERE claim ->> 'op' = 'claim';
        claims_limited := FOUND;
    END IF;
    IF cardinality(ids) > 1 OR has_settles OR claims_limited THEN
        PERFORM FROM (
            SELECT DISTINCT id COLLATE "C" AS id, namespace COLLATE "C" AS namespace
            FROM unnest(ids, namespaces) AS listed (id, namespace)
            ORDER BY 1, 2
        ) AS listed
        CROSS JOIN LATERAL (
            SELECT FROM signoff.runs WHERE id = listed.id AND namespace = listed.namespace FOR NO KEY UPDATE
        ) AS run;
    END IF;
    IF claims_limited THEN
        FOR limited IN
            SELECT DISTINCT (claim ->> 'group') COLLATE "C" AS name, (claim ->> 'namespace') COLLATE "C" AS namespace
            FROM jsonb_array_elements(p_operations) AS claim
            WHERE claim ->> 'op' = 'claim'
            ORDER BY 1, 2
        LOOP
            PERFORM FROM signoff.groups WHERE name = limited.name AND namespace = limited.namespace
                AND (max_running IS NOT NULL OR rate_count IS NOT NULL)
            FOR NO KEY UPDATE;
        END LOOP;
    END IF;
END $$;

-- One operation that is not one of an operator's. See signoff.operate.
CREATE OR REPLACE FUNCTION signoff.operate_on(p_op jsonb, p_now double precision, p_lease_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_run_id constant text := p_op ->> 'run_id';
    run signoff.runs;
    promise signoff.promises;
    was_created boolean;
BEGIN
    CASE p_op ->> 'op'
    WHEN 'write' THEN
        RETURN signoff.write(v_namespace, p_op -> 'write', p_now);
    WHEN 'claim' THEN
        RETURN signoff.claim(p_op, p_now, p_lease_now);
    WHEN 'settle' THEN
        RETURN signoff.settle(
            v_namespace, p_op ->> 'promise_id', p_op ->> 'kind', p_op -> 'settlement', p_op ->> 'token', p_now
        );
    WHEN 'amend' THEN
        RETURN signoff.amend(
            v_namespace, p_op ->> 'promise_id', p_op -> 'amendment', p_op ->> 'token', p_now
        );
    WHEN 'record' THEN
        PERFORM signoff.record(v_namespace, p_op -> 'events', p_now);
        RETURN '{}';
    WHEN 'signal' THEN
        RETURN signoff.signal(
            v_namespace, v_run_id, p_op ->> 'name', p_op ->> 'value', p_op ->> 'by', p_op ->> 'request_id',
            p_op ->> 'token', p_now
        );
    WHEN 'create_run' THEN
        IF signoff.create_row(v_namespace, p_op -> 'new', p_op ->> 'token', p_now) THEN
            IF p_op #>> '{new,session_id}' IS NULL THEN
                RETURN jsonb_build_object('created_at', p_now);  -- the caller knows the rest
            END IF;
            SELECT * INTO run FROM signoff.runs WHERE id = p_op #>> '{new,id}' AND namespace = v_namespace;
            RETURN jsonb_build_object('created_at', p_now, 'position', run.position)
                || CASE WHEN run.state = 'paused' AND run.wake_at IS NULL THEN '{"waits": true}' ELSE '{}' END::jsonb;
        END IF;
        SELECT * INTO run FROM signoff.runs WHERE id = p_op #>> '{new,id}' AND namespace = v_namespace;
        IF NOT FOUND THEN  -- it was deleted just now
            RETURN signoff.operate(p_op, p_now, p_lease_now);
        END IF;
        RETURN jsonb_build_object('run', to_jsonb(run), 'created', run.create_token = p_op ->> 'token');
    WHEN 'create_promise' THEN
        SELECT * INTO promise FROM signoff.create_promise_row(
            v_namespace, NULL, p_op -> 'new', p_op ->> 'token', p_now
        );
        was_created := FOUND;
        IF NOT was_created THEN
            SELECT * INTO promise FROM signoff.promises
            WHERE shard = signoff.shard_of(p_op #>> '{new,id}') AND namespace = v_namespace
                AND id = p_op #>> '{new,id}';
            IF NOT FOUND THEN
                RETURN signoff.operate(p_op, p_now, p_lease_now);
            END IF;
        END IF;
        RETURN jsonb_build_object(
            'promise', signoff.promise_values(promise), 'new', was_created,
            'created', promise.create_token = p_op ->> 'token'
        );
    WHEN 'cancel' THEN
        RETURN signoff.cancel(
            v_namespace, v_run_id, p_op ->> 'reason', p_op ->> 'by', p_op ->> 'error', p_now
        );
    WHEN 'retry' THEN
        RETURN signoff.retry(v_namespace, v_run_id, p_op ->> 'details', p_now);
    END CASE;
END $$;

-- One operation. Returns what it found and did; "woken" are the runs that were left a message.
CREATE OR REPLACE FUNCTION signoff.operate(p_op jsonb, p_now double precision, p_lease_now double precision) RETURNS jsonb
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
    WHEN 'open_invocation', 'settle_held', 'acquire_task', 'release_task', 'suspend_task', 'halt_task', 'continue_task',
        'await_promise', 'listen_promise' THEN
        RETURN signoff.operate_on_task(p_op, p_now, p_lease_now);
    ELSE
        RETURN signoff.operate_on(p_op, p_now, p_lease_now);
    END CASE;
END $$;

-- "turns" are the runs whose turn it has become.
CREATE OR REPLACE FUNCTION signoff.apply(p_batch jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    db_now constant double precision := extract(epoch FROM clock_timestamp());
    v_now constant double precision := coalesce((p_batch ->> 'now')::double precision, db_now);
    v_lease_now constant double precision := coalesce((p_batch ->> 'lease_now')::double precision, db_now);
    appends constant jsonb := p_batch -> 'appends';
    operations constant jsonb := p_batch -> 'operations';
    appended jsonb;
    operation jsonb;
    reply jsonb;
    replies jsonb[] := '{}';
BEGIN
    IF operations IS NOT NULL THEN
        PERFORM signoff.lock_runs(appends, operations);
        IF jsonb_array_length(operations) > 1 OR operations #> '{0,promise_ids}' IS NOT NULL THEN
            PERFORM signoff.lock_tasks(operations, v_now);
        END IF;
    END IF;
    IF appends IS NOT NULL THEN
        appended := signoff.append(appends, p_batch -> 'entries');
    END IF;
    FOR place IN 0 .. jsonb_array_length(operations) - 1 LOOP
        operation := operations -> place;
        reply := signoff.operate(operation, v_now, v_lease_now);
        IF current_setting('signoff.claimable', true) = 'yes' THEN
            reply := reply || '{"claimable": true}';
            PERFORM set_config('signoff.claimable', '', true);
        END IF;
        IF current_setting('signoff.turns', true) <> '' THEN
            reply := reply || jsonb_build_object('turns', current_setting('signoff.turns')::jsonb);
            PERFORM set_config('signoff.turns', '', true);
        END IF;
        IF signoff.take_task_due() THEN
            reply := reply || '{"task_due": true}';
        END IF;
        replies := replies || reply;
    END LOOP;
    RETURN jsonb_build_object('appended', appended, 'results', to_jsonb(replies));
END $$;
CALL signoff.plan_by_index('signoff.apply');
