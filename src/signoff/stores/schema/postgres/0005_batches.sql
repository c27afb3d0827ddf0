-- Many operations of one process in one statement, and so in one transaction and one commit.

-- Append entries to many journals at once, each behind the fence of its epoch.
-- Returns, in order, {} for each write, or what signoff.write says of one that does not fit.
CREATE FUNCTION signoff.append_all(p_writes jsonb, p_now double precision) RETURNS jsonb
LANGUAGE sql AS $$
    WITH writes AS MATERIALIZED (
        SELECT (write ->> 'namespace') AS namespace, (write ->> 'run_id') AS run_id,
            (write ->> 'epoch')::integer AS epoch, write, place
        FROM jsonb_array_elements(p_writes) WITH ORDINALITY AS listed (write, place)
    ),
    held AS MATERIALIZED (
        SELECT writes.place, writes.namespace, writes.run_id, writes.write
        FROM writes JOIN signoff.runs ON runs.id = writes.run_id AND runs.namespace = writes.namespace
        WHERE runs.epoch = writes.epoch AND runs.state = 'running'
        ORDER BY runs.id, runs.namespace
        FOR NO KEY UPDATE OF runs
    ),
    fitting AS MATERIALIZED (
        SELECT held.*
        FROM held CROSS JOIN LATERAL (
            SELECT coalesce(max(seq), -1) + 1 AS seq FROM signoff.journal
            WHERE run_id = held.run_id AND namespace = held.namespace
        ) AS next
        WHERE next.seq = (held.write #>> '{entries,0,seq}')::integer
    ),
    added AS (
        INSERT INTO signoff.journal (run_id, namespace, seq, at, kind, n, call, name, value, error, details)
        SELECT fitting.run_id, fitting.namespace, new.*
        FROM fitting
        CROSS JOIN LATERAL jsonb_populate_recordset(NULL::signoff.entry, fitting.write -> 'entries') AS new
    )
    SELECT jsonb_agg(
        CASE
            WHEN fitting.place IS NOT NULL THEN '{}'
            ELSE signoff.write(writes.namespace, writes.write, p_now)
        END ORDER BY writes.place
    )
    FROM writes LEFT JOIN fitting USING (place)
$$;

-- Lock the runs that a batch concerns, in one order for everybody: two batches never wait for each other in a circle.
CREATE FUNCTION signoff.lock_runs(p_appends jsonb, p_operations jsonb) RETURNS void
LANGUAGE sql AS $$
    WITH operations AS MATERIALIZED (
        SELECT operation ->> 'op' AS op, operation ->> 'namespace' AS namespace, operation ->> 'run_id' AS run_id,
            operation ->> 'promise_id' AS promise_id, operation -> 'write' AS write
        FROM jsonb_array_elements(p_operations) AS operation
    ),
    writes AS (
        SELECT namespace, write ->> 'run_id' AS run_id, write FROM operations WHERE write IS NOT NULL
    ),
    settled AS (
        SELECT namespace, promise_id FROM operations WHERE promise_id IS NOT NULL
        UNION ALL
        SELECT namespace, closed FROM writes CROSS JOIN jsonb_array_elements_text(write -> 'closes') AS closed
    ),
    ended AS (
        SELECT namespace, run_id FROM writes WHERE write ? 'outcome'
        UNION ALL
        SELECT namespace, run_id FROM operations WHERE op = 'cancel'
        UNION ALL
        SELECT namespace, cancelled ->> 'id' FROM writes CROSS JOIN jsonb_array_elements(write -> 'cancels') AS cancelled
    ),
    concerned AS (
        SELECT run_id, namespace FROM operations
        UNION
        SELECT run_id, namespace FROM writes
        UNION
        SELECT run_id, namespace FROM ended
        UNION
        SELECT write ->> 'run_id', write ->> 'namespace' FROM jsonb_array_elements(p_appends) AS write
        UNION
        SELECT runs.parent_id, runs.namespace
        FROM ended JOIN signoff.runs ON runs.id = ended.run_id AND runs.namespace = ended.namespace
        UNION
        SELECT promises.run_id, promises.namespace
        FROM settled JOIN signoff.promises
            ON promises.shard = signoff.shard_of(settled.promise_id) AND promises.namespace = settled.namespace
            AND promises.id = settled.promise_id
        UNION
        SELECT waiters.run_id, waiters.namespace
        FROM settled JOIN signoff.waiters
            ON waiters.shard = signoff.shard_of(settled.promise_id) AND waiters.namespace = settled.namespace
            AND waiters.target = 'promise' AND waiters.target_id = settled.promise_id
        UNION
        SELECT waiters.run_id, waiters.namespace
        FROM ended JOIN signoff.waiters
            ON waiters.shard = ended.run_id AND waiters.namespace = ended.namespace
            AND waiters.target = 'run' AND waiters.target_id = ended.run_id
    ),
    locked AS (
        SELECT 1 FROM signoff.runs JOIN concerned ON runs.id = concerned.run_id AND runs.namespace = concerned.namespace
        ORDER BY runs.id, runs.namespace
        FOR NO KEY UPDATE OF runs
    )
    SELECT count(*) FROM locked
$$;

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
        RETURN signoff.claim(p_op, p_lease_now);
    WHEN 'settle' THEN
        RETURN signoff.settle(
            v_namespace, p_op ->> 'promise_id', p_op ->> 'kind', p_op -> 'settlement', p_op ->> 'token', p_now
        );
    WHEN 'signal' THEN
        RETURN signoff.signal(
            v_namespace, v_run_id, p_op ->> 'name', p_op ->> 'value', p_op ->> 'by', p_op ->> 'request_id', p_now
        );
    WHEN 'create_run' THEN
        SELECT * INTO run FROM signoff.create_row(v_namespace, p_op -> 'new', p_now);
        was_created := FOUND;
        IF NOT was_created THEN
            SELECT * INTO run FROM signoff.runs WHERE id = p_op #>> '{new,id}' AND namespace = v_namespace;
        END IF;
        RETURN jsonb_build_object('run', to_jsonb(run), 'created', was_created);
    WHEN 'create_promise' THEN
        SELECT * INTO promise FROM signoff.create_promise_row(v_namespace, NULL, p_op -> 'new', p_now);
        was_created := FOUND;
        IF NOT was_created THEN
            SELECT * INTO promise FROM signoff.promises
            WHERE shard = signoff.shard_of(p_op #>> '{new,id}') AND namespace = v_namespace
                AND id = p_op #>> '{new,id}';
        END IF;
        RETURN jsonb_build_object('promise', to_jsonb(promise), 'created', was_created);
    WHEN 'cancel' THEN
        RETURN signoff.cancel(
            v_namespace, v_run_id, p_op ->> 'reason', p_op ->> 'by', p_op ->> 'error', p_now
        );
    WHEN 'retry' THEN
        SELECT * INTO run FROM signoff.retry_row(v_namespace, v_run_id, p_now);
        IF FOUND THEN
            PERFORM signoff.note(run, 'retried', NULL, p_now);
            RETURN jsonb_build_object('run', to_jsonb(run), 'retried', true);
        END IF;
        SELECT * INTO run FROM signoff.runs WHERE id = v_run_id AND namespace = v_namespace;
        RETURN CASE WHEN FOUND THEN jsonb_build_object('run', to_jsonb(run)) ELSE '{}' END;
    END CASE;
END $$;

-- Lease ready runs to a worker, and bring the messages that wait for them.
CREATE FUNCTION signoff.claim(p_op jsonb, p_lease_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    claimed signoff.runs[];
BEGIN
    -- This very claim, when the reply was lost.
    claimed := ARRAY(
        SELECT runs FROM signoff.runs
        WHERE worker_id = p_op ->> 'worker_id' AND state = 'running' AND claim_token = p_op ->> 'token'
    );
    IF cardinality(claimed) = 0 THEN
        claimed := ARRAY(
            SELECT runs FROM signoff.claim_rows(
                v_namespace, p_op ->> 'group', ARRAY(SELECT jsonb_array_elements_text(p_op -> 'workflows')),
                (p_op ->> 'limit')::integer, p_op ->> 'worker_id', p_op ->> 'token',
                p_lease_now + (p_op ->> 'lease_seconds')::double precision
            ) AS runs
        );
    END IF;
    RETURN (
        SELECT jsonb_build_object(
            'claims',
            jsonb_agg(
                to_jsonb(run) || jsonb_build_object('messages', CASE WHEN run.wakes > 0 THEN (
                    SELECT jsonb_agg(to_jsonb(messages) ORDER BY id) FROM signoff.messages
                    WHERE run_id = run.id AND namespace = run.namespace
                ) END)
                ORDER BY run.ready_at, run.number
            )
        )
        FROM unnest(claimed) AS run
    );
END $$;

-- A batch: {"appends": [...], "operations": [...]}, with "now" and "lease_now" where time is not the database's.
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
        appended := signoff.append_all(appends, v_now);
    END IF;
    FOR operation IN SELECT value FROM jsonb_array_elements(operations) LOOP
        reply := signoff.operate(operation, v_now, v_lease_now);
        IF jsonb_array_length(reply -> 'woken') > 0 THEN
            reply := reply || jsonb_build_object('ready', EXISTS (
                SELECT FROM signoff.runs
                WHERE id IN (SELECT jsonb_array_elements_text(reply -> 'woken'))
                    AND namespace = operation ->> 'namespace' AND state = 'ready'
            ));
        END IF;
        replies := replies || reply;
    END LOOP;
    RETURN jsonb_build_object('appended', appended, 'results', to_jsonb(replies));
END $$;
