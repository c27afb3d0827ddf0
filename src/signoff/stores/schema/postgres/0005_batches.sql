-- Many operations of one process in one statement, and so in one transaction and one commit.

-- Have a function, and what it calls, find rows by an index. Each of their statements has one; plans are made once for
-- a connection, when a table may still be empty, and must be the right ones for a table that is large.
CREATE PROCEDURE signoff.plan_by_index(p_function regproc)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'ALTER FUNCTION %s'
        ' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off'
        ' SET jit = off SET plan_cache_mode = force_generic_plan',
        p_function
    );
END $$;

-- Append an entry to a journal behind the fence of its epoch. Returns {} if it fits, else a list with what signoff.write
-- says of it. The run is locked before the journal is looked at: a later statement sees what was committed meanwhile.
CREATE FUNCTION signoff.append_entry(
    p_namespace text, p_run_id text, p_epoch integer, p_seq integer, p_at double precision, p_kind text, p_n integer,
    p_call text, p_name text, p_value text, p_error text, p_details text
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    entry signoff.entry;
BEGIN
    PERFORM FROM signoff.runs
    WHERE id = p_run_id AND namespace = p_namespace AND epoch = p_epoch AND lease_until IS NOT NULL
    FOR NO KEY UPDATE;
    IF FOUND THEN
        INSERT INTO signoff.journal (run_id, namespace, seq, at, kind, n, call, name, value, error, details)
        SELECT p_run_id, p_namespace, p_seq, p_at, p_kind, p_n, p_call, p_name, p_value, p_error, p_details
        WHERE p_seq = coalesce((
            SELECT seq + 1 FROM signoff.journal
            WHERE run_id = p_run_id AND namespace = p_namespace
            ORDER BY seq DESC LIMIT 1
        ), 0);
        IF FOUND THEN
            RETURN '{}';
        END IF;
    END IF;
    entry := (p_seq, p_at, p_kind, p_n, p_call, p_name, p_value, p_error, p_details);
    RETURN jsonb_build_array(signoff.write(
        p_namespace,
        jsonb_build_object('run_id', p_run_id, 'epoch', p_epoch, 'entries', jsonb_build_array(to_jsonb(entry))),
        0  -- entries have their own time
    ));
END $$;
CALL signoff.plan_by_index('signoff.append_entry');

-- Append entries to many journals at once, each behind the fence of its epoch. The runs come in the order in which
-- everybody locks them; the entries are rows of the journal. Returns {} if all fit; else, in order, {} for each run, or
-- what signoff.write says of one that does not fit.
CREATE FUNCTION signoff.append(p_runs jsonb, p_entries jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    count_runs constant integer := jsonb_array_length(p_runs);
    count_held integer;
BEGIN
    SELECT count(*) INTO count_held
    FROM jsonb_to_recordset(p_runs) AS asked (run_id text, namespace text, epoch integer)
    CROSS JOIN LATERAL (
        SELECT FROM signoff.runs
        WHERE id = asked.run_id AND namespace = asked.namespace AND epoch = asked.epoch AND lease_until IS NOT NULL
        FOR NO KEY UPDATE
    ) AS held;
    IF count_held = count_runs THEN
        INSERT INTO signoff.journal
        SELECT * FROM jsonb_populate_recordset(NULL::signoff.journal, p_entries)
        WHERE count_runs = (
            SELECT count(*)
            FROM jsonb_to_recordset(p_runs) AS asked (run_id text, namespace text, seq integer)
            WHERE seq = coalesce((
                SELECT journal.seq + 1 FROM signoff.journal AS journal
                WHERE journal.run_id = asked.run_id AND journal.namespace = asked.namespace
                ORDER BY journal.seq DESC LIMIT 1
            ), 0)
        );
        IF FOUND THEN
            RETURN '{}';
        END IF;
    END IF;
    RETURN (
        SELECT jsonb_agg(
            signoff.write(
                run ->> 'namespace',
                run || jsonb_build_object('entries', (
                    SELECT jsonb_agg(entry ORDER BY (entry ->> 'seq')::integer)
                    FROM jsonb_array_elements(p_entries) AS entry
                    WHERE entry ->> 'run_id' = run ->> 'run_id' AND entry ->> 'namespace' = run ->> 'namespace'
                )),
                0  -- entries have their own time
            ) ORDER BY place
        )
        FROM jsonb_array_elements(p_runs) WITH ORDINALITY AS listed (run, place)
    );
END $$;
CALL signoff.plan_by_index('signoff.append');

-- The runs that an operation changes, as far as that can be known before.
CREATE FUNCTION signoff.concerned(p_op jsonb) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_write constant jsonb := p_op -> 'write';
    v_run_id constant text := coalesce(v_write ->> 'run_id', p_op ->> 'run_id');
    settles constant boolean := p_op ->> 'op' IN ('settle', 'amend');  -- or may do so
    ids text[] := ARRAY[v_run_id];
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

-- Lock the runs that a batch concerns, in one order for everybody and before anything else: so two batches do not wait
-- for each other in a circle.
CREATE FUNCTION signoff.lock_runs(p_appends jsonb, p_operations jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    operation jsonb;
    concerned text[];
    limited record;
    ids text[] := '{}';
    namespaces text[] := '{}';
    all_slots text[] := '{}';
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
        has_settles := has_settles OR operation ->> 'op' IN ('settle', 'amend');
        has_claims := has_claims OR operation ->> 'op' = 'claim';
    END LOOP;
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

-- One operation. Returns what it found and did; "woken" are the runs that were left a message.
CREATE FUNCTION signoff.operate(p_op jsonb, p_now double precision, p_lease_now double precision) RETURNS jsonb
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
            RETURN jsonb_build_object('created_at', p_now);  -- the caller knows the rest
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

-- Lease ready runs to a worker, and bring the messages that wait for them. Each run is a list, see signoff.run_values.
CREATE FUNCTION signoff.claim(p_op jsonb, p_now double precision, p_lease_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_worker_id constant text := p_op ->> 'worker_id';
    v_token constant text := p_op ->> 'token';
    choice jsonb := '{}';
BEGIN
    PERFORM FROM signoff.runs
    WHERE worker_id = v_worker_id AND claim_token = v_token AND namespace = v_namespace LIMIT 1;
    IF NOT FOUND THEN  -- else it is this very claim, whose reply was lost
        choice := signoff.choose(
            v_namespace, p_op ->> 'group', ARRAY(SELECT jsonb_array_elements_text(p_op -> 'workflows')),
            (p_op ->> 'limit')::integer, p_now
        );
        IF choice -> 'ids' = '[]' THEN
            RETURN choice;
        END IF;
        PERFORM signoff.claim_rows(
            v_namespace, ARRAY(SELECT jsonb_array_elements_text(choice -> 'ids')), v_worker_id, v_token,
            p_lease_now + (p_op ->> 'lease_seconds')::double precision
        );
    END IF;
    RETURN choice - 'ids' || (  -- "due", if a rate has held one back
        SELECT jsonb_build_object(
            'claims',
            jsonb_agg(
                jsonb_build_array(signoff.run_values(run), CASE WHEN wakes > 0 THEN (
                    SELECT jsonb_agg(to_jsonb(messages) ORDER BY id) FROM signoff.messages
                    WHERE run_id = run.id AND namespace = run.namespace
                ) END)
                ORDER BY priority DESC, ready_at, number
            )
        )
        FROM signoff.runs AS run
        WHERE worker_id = v_worker_id AND claim_token = v_token AND namespace = v_namespace
    );
END $$;

-- What a worker gets to know of a run, in the order of RUN_COLUMNS in stores/postgres/rows.py.
CREATE FUNCTION signoff.run_values(p_run signoff.runs) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_array(
        (p_run).namespace, (p_run).id, (p_run).workflow, (p_run).group_name, (p_run).arguments, (p_run).state,
        (p_run).created_at, (p_run).parent_id, (p_run).parent_n, (p_run).deadline_at, (p_run).ended_at,
        (p_run).result, (p_run).error, (p_run).retryable, (p_run).epoch, (p_run).wakes, (p_run).wake_at,
        (p_run).worker_id, (p_run).lease_until, (p_run).first_seq, (p_run).priority, (p_run).start_at,
        (p_run).concurrency_key, (p_run).concurrency_limit, (p_run).traceparent, (p_run).started_by
    )
$$;

-- A batch: {"appends": [...], "entries": [...], "operations": [...]}, with "now" and "lease_now" where time is not the database's.
CREATE FUNCTION signoff.apply(p_batch jsonb) RETURNS jsonb
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
        replies := replies || reply;
    END LOOP;
    RETURN jsonb_build_object('appended', appended, 'results', to_jsonb(replies));
END $$;
CALL signoff.plan_by_index('signoff.apply');
