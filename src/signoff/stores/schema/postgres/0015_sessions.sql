-- Sessions: chains of runs of which one at most is active at a time. A run that is behind another one is paused in epoch 0
-- without a time, so no claim and no timer comes across it, however many they are.
--
-- Whoever starts or ends runs of a session holds an advisory lock on its turns until the commit; everybody takes these
-- before slots and runs (signoff.lock_runs).

ALTER TABLE signoff.runs ADD COLUMN session_id text COLLATE "C", ADD COLUMN position integer;

-- Not for who looks for the first of those that have not ended; nor do indexes of states serve who lists these.
CREATE INDEX runs_by_session ON signoff.runs ((session_id || ''), namespace, (state || ''), number)
    WHERE session_id IS NOT NULL;
CREATE INDEX runs_in_line ON signoff.runs (session_id, namespace, position)
    WHERE session_id IS NOT NULL AND (ended_at IS NULL OR retryable);

CREATE TABLE signoff.sessions (
    id text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    created_at double precision NOT NULL,
    last_at double precision NOT NULL,
    last_position integer NOT NULL,
    last_number bigint NOT NULL,  -- of the run that was started last
    PRIMARY KEY (id, namespace)
) WITH (fillfactor = 80);

CREATE INDEX sessions_by_last ON signoff.sessions ((namespace || ''), last_number);  -- not for who looks for one

-- What whoever passes the turn of a session locks.
CREATE FUNCTION signoff.turns_of(p_namespace text, p_session_id text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN jsonb_build_array('session', p_namespace, p_session_id)::text;
END $$;

-- The run whose turn it is in a session.
CREATE FUNCTION signoff.active_run(p_namespace text, p_session_id text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT id FROM signoff.runs
        WHERE session_id = p_session_id AND namespace = p_namespace AND (ended_at IS NULL OR retryable)
        ORDER BY position LIMIT 1
    );
END $$;
CALL signoff.plan_by_index('signoff.active_run');

-- Sessions, by when a run was last started in them, with the run whose turn it is.
CREATE FUNCTION signoff.listed_sessions(p_namespace text, p_before bigint, p_limit integer) RETURNS TABLE (
    namespace text, id text, created_at double precision, last_at double precision, last_position integer,
    active_run_id text, last_number bigint
)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
        SELECT listed.namespace, listed.id, listed.created_at, listed.last_at, listed.last_position,
            signoff.active_run(listed.namespace, listed.id), listed.last_number
        FROM (
            SELECT * FROM signoff.sessions AS sessions
            WHERE sessions.namespace || '' = p_namespace AND sessions.last_number < p_before
            ORDER BY sessions.last_number DESC LIMIT p_limit
        ) AS listed;
END $$;
CALL signoff.plan_by_index('signoff.listed_sessions');

-- paused until its turn comes -> ready, or paused until it may start.
CREATE FUNCTION signoff.pass_turn(p_namespace text, p_session_id text, p_now double precision) RETURNS void
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
    RETURNING * INTO run;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM set_config('signoff.turns', (
        coalesce(nullif(current_setting('signoff.turns', true), ''), '[]')::jsonb || to_jsonb(v_id)
    )::text, true);
    IF run.state = 'ready' AND NOT signoff.line_up(run) THEN
        PERFORM signoff.tell_workers();
    END IF;
END $$;

-- The sessions in which an operation may start or end runs; of these it may end, `p_concerned` are known.
CREATE FUNCTION signoff.chains_of(p_op jsonb, p_concerned text[]) RETURNS SETOF text
LANGUAGE plpgsql AS $$
BEGIN
    IF p_op #>> '{new,session_id}' IS NOT NULL THEN
        RETURN NEXT p_op #>> '{new,session_id}';
    END IF;
    IF p_op #> '{write,starts}' IS NOT NULL THEN
        RETURN QUERY
            SELECT new ->> 'session_id' FROM jsonb_array_elements(p_op #> '{write,starts}') AS new
            WHERE new ->> 'session_id' IS NOT NULL;
    END IF;
    IF p_op -> 'write' ? 'outcome' OR p_op -> 'write' ? 'cancels' OR p_op ->> 'op' = 'cancel' THEN
        RETURN QUERY
            SELECT run.session_id FROM unnest(p_concerned) AS listed (id)
            CROSS JOIN LATERAL (
                SELECT runs.session_id FROM signoff.runs AS runs
                WHERE runs.id = listed.id AND runs.namespace = p_op ->> 'namespace' OFFSET 0
            ) AS run
            WHERE run.session_id || '' IS NOT NULL;
    END IF;
END $$;

-- The transitions, as in 0002_transitions.sql: those which start and end runs keep sessions, too.

CREATE OR REPLACE FUNCTION signoff.create_row(p_namespace text, p_run jsonb, p_token text, p_now double precision) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_session constant text := p_run ->> 'session_id';
    v_slots text;
    v_number bigint;
    v_position integer;
    waits boolean := false;
    run signoff.runs;
BEGIN
    IF v_session IS NOT NULL THEN
        PERFORM signoff.lock_slots(signoff.turns_of(p_namespace, v_session));
        v_position := 1 + coalesce((
            SELECT last_position FROM signoff.sessions WHERE id = v_session AND namespace = p_namespace
        ), 0);
        waits := signoff.active_run(p_namespace, v_session) IS NOT NULL;
    END IF;
    INSERT INTO signoff.runs (
        id, namespace, workflow, group_name, state, created_at, ready_at, wake_at, parent_id, parent_n,
        deadline_at, priority, start_at, concurrency_key, concurrency_limit, slots, arguments, arguments_digest,
        create_token, traceparent, started_by, session_id, position
    )
    SELECT id, p_namespace, workflow, group_name, CASE WHEN waits OR start_at > p_now THEN 'paused' ELSE 'ready' END,
        p_now, p_now, CASE WHEN NOT waits AND start_at > p_now THEN start_at END, parent_id, parent_n,
        deadline_at, priority, start_at, concurrency_key, concurrency_limit,
        CASE WHEN concurrency_key IS NOT NULL THEN
            signoff.slots_of(p_namespace, group_name, workflow, concurrency_key)
        END,
        arguments, arguments_digest, p_token, traceparent, started_by, v_session, v_position
    FROM jsonb_to_record(p_run) AS new (
        id text, workflow text, group_name text, parent_id text, parent_n integer, deadline_at double precision,
        priority integer, start_at double precision, concurrency_key text, concurrency_limit integer, arguments text,
        arguments_digest text, traceparent text, started_by text
    )
    ON CONFLICT (id, namespace) DO NOTHING
    RETURNING slots, number INTO v_slots, v_number;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF v_session IS NOT NULL THEN
        INSERT INTO signoff.sessions (id, namespace, created_at, last_at, last_position, last_number)
        VALUES (v_session, p_namespace, p_now, p_now, v_position, v_number)
        ON CONFLICT (id, namespace) DO UPDATE
        SET last_at = p_now, last_position = v_position, last_number = v_number;
    END IF;
    IF v_slots IS NOT NULL THEN
        SELECT * INTO run FROM signoff.runs WHERE id = p_run ->> 'id' AND namespace = p_namespace;
        PERFORM signoff.line_up(run);
    END IF;
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION signoff.end_row(
    p_namespace text, p_run_id text, p_epoch integer, p_outcome jsonb, p_now double precision
) RETURNS signoff.runs
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
BEGIN
    UPDATE signoff.runs
    SET state = p_outcome ->> 'state', result = p_outcome ->> 'result', error = p_outcome ->> 'error',
        retryable = coalesce((p_outcome ->> 'retryable')::boolean, false), ended_at = p_now,
        worker_id = NULL, lease_until = NULL
    WHERE id = p_run_id AND namespace = p_namespace AND epoch = p_epoch AND lease_until IS NOT NULL
    RETURNING * INTO STRICT run;  -- the caller has it locked, and has seen that it is running
    PERFORM signoff.slot_freed(p_namespace, run.group_name, run.slots);
    IF run.session_id IS NOT NULL AND NOT run.retryable THEN
        PERFORM signoff.pass_turn(p_namespace, run.session_id, p_now);
    END IF;
    RETURN run;
END $$;

CREATE OR REPLACE FUNCTION signoff.cancel_row(p_namespace text, p_run_id text, p_error text, p_now double precision)
RETURNS SETOF signoff.runs
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
BEGIN
    UPDATE signoff.runs
    SET state = 'cancelled', retryable = false, error = p_error, ended_at = p_now, wake_at = NULL, blocked = false
    WHERE id = p_run_id AND namespace = p_namespace
        AND (epoch = 0 AND ended_at IS NULL OR state = 'failed' AND retryable)
    RETURNING * INTO run;
    IF FOUND THEN
        IF run.slots IS NOT NULL THEN
            PERFORM signoff.slot_freed(run.namespace, run.group_name, run.slots);
        END IF;
        IF run.session_id IS NOT NULL THEN
            PERFORM signoff.pass_turn(p_namespace, run.session_id, p_now);
        END IF;
        RETURN NEXT run;
    END IF;
END $$;

-- A child with the id of another session's run is refused; the rest as in 0004_writes.sql.
CREATE OR REPLACE FUNCTION signoff.start_child(p_namespace text, p_parent_id text, p_new jsonb, p_now double precision)
RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
    new_n constant integer := (p_new ->> 'parent_n')::integer;
BEGIN
    IF signoff.create_row(p_namespace, p_new, NULL, p_now) OR new_n IS NULL THEN
        RETURN '{}';
    END IF;
    -- Locked: if it ends from now on, it sees that we wait.
    SELECT * INTO run FROM signoff.runs WHERE id = p_new ->> 'id' AND namespace = p_namespace FOR SHARE;
    IF NOT FOUND THEN  -- it was deleted just now
        RETURN signoff.start_child(p_namespace, p_parent_id, p_new, p_now);
    END IF;
    IF run.parent_id = p_parent_id AND run.parent_n = new_n THEN
        RETURN '{}';
    END IF;
    IF run.workflow <> p_new ->> 'workflow' OR run.arguments_digest <> p_new ->> 'arguments_digest'
        OR run.session_id IS DISTINCT FROM p_new ->> 'session_id' THEN
        RETURN signoff.refuse(p_namespace, p_parent_id, new_n, run.id, 'failed', p_new ->> 'conflict', p_now);
    END IF;
    INSERT INTO signoff.waiters (shard, namespace, target, target_id, run_id, n)
    VALUES (run.id, p_namespace, 'run', run.id, p_parent_id, new_n)
    ON CONFLICT DO NOTHING;
    IF FOUND AND run.ended_at IS NOT NULL AND NOT run.retryable THEN
        RETURN signoff.tell_end(
            p_namespace, p_parent_id, new_n, run.id, run.state, run.result, run.error, p_now
        );
    END IF;
    RETURN '{}';
END $$;

-- As in 0005_batches.sql; sessions' turns come first, and runs that may get one are among those that are locked.
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
        has_settles := has_settles OR operation ->> 'op' IN ('settle', 'amend');
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

CREATE OR REPLACE FUNCTION signoff.operate(p_op jsonb, p_now double precision, p_lease_now double precision) RETURNS jsonb
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

CREATE OR REPLACE FUNCTION signoff.run_values(p_run signoff.runs) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_array(
        (p_run).namespace, (p_run).id, (p_run).workflow, (p_run).group_name, (p_run).arguments, (p_run).state,
        (p_run).created_at, (p_run).parent_id, (p_run).parent_n, (p_run).deadline_at, (p_run).ended_at,
        (p_run).result, (p_run).error, (p_run).retryable, (p_run).epoch, (p_run).wakes, (p_run).wake_at,
        (p_run).worker_id, (p_run).lease_until, (p_run).first_seq, (p_run).priority, (p_run).start_at,
        (p_run).concurrency_key, (p_run).concurrency_limit, (p_run).traceparent, (p_run).started_by, (p_run).session_id, (p_run).position
    )
$$;

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
        replies := replies || reply;
    END LOOP;
    RETURN jsonb_build_object('appended', appended, 'results', to_jsonb(replies));
END $$;
CALL signoff.plan_by_index('signoff.apply');
