-- What follows from one change is done in one subtransaction, and one by one only if that fails. A transaction with more
-- than 64 subtransactions slows all others: Postgres looks theirs up page by page.

-- Leave messages for the runs that joined what was settled.
CREATE FUNCTION signoff.tell_joined(
    p_namespace text, p_run_ids text[], p_ns integer[], p_now double precision, p_name text, p_state text, p_value text,
    p_error text, p_by text DEFAULT NULL, p_note text DEFAULT NULL
) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    woken text[] := '{}';
BEGIN
    IF cardinality(p_run_ids) > 1 THEN
        BEGIN
            FOR place IN 1 .. cardinality(p_run_ids) LOOP
                woken := woken || signoff.leave(
                    p_namespace, p_run_ids[place], 'settled', p_now, p_ns[place], p_name, p_state, p_value, p_error, p_by,
                    p_note
                );
            END LOOP;
            RETURN woken;
        EXCEPTION WHEN OTHERS THEN
            IF NOT signoff.is_of_row(SQLSTATE) THEN
                RAISE;
            END IF;
            woken := '{}';
        END;
    END IF;
    FOR place IN 1 .. cardinality(p_run_ids) LOOP
        woken := woken || signoff.leave_or_defer(
            p_namespace, p_run_ids[place], p_now, p_ns[place], p_name, p_state, p_value, p_error, p_by, p_note
        );
    END LOOP;
    RETURN woken;
END $$;

-- As in 0032_deferred.sql.
CREATE OR REPLACE FUNCTION signoff.tell_waiters(p_promise signoff.promises, p_now double precision) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    run_ids text[];
    ns integer[];
BEGIN
    SELECT array_agg(run_id ORDER BY run_id, n), array_agg(n ORDER BY run_id, n) INTO run_ids, ns
    FROM signoff.waiters
    WHERE shard = p_promise.shard AND namespace = p_promise.namespace AND target = 'promise'
        AND target_id = p_promise.id;
    IF run_ids IS NULL THEN
        RETURN '{}';
    END IF;
    RETURN signoff.tell_joined(
        p_promise.namespace, run_ids, ns, p_now, p_promise.id, p_promise.state, p_promise.value, NULL,
        p_promise.settled_by, p_promise.note
    );
END $$;

-- As in 0032_deferred.sql.
CREATE OR REPLACE FUNCTION signoff.finish(p_run signoff.runs, p_now double precision) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    run_ids text[];
    ns integer[];
    woken text[];
BEGIN
    IF p_run.wakes > 0 THEN
        DELETE FROM signoff.messages WHERE run_id = p_run.id AND namespace = p_run.namespace;
    END IF;
    woken := signoff.close_all(p_run.namespace, p_run.id, p_now);
    IF p_run.parent_id IS NOT NULL AND p_run.parent_n IS NOT NULL THEN
        woken := woken || signoff.tell_end(
            p_run.namespace, p_run.parent_id, p_run.parent_n, p_run.id, p_run.state, p_run.result, p_run.error, p_now
        );
    END IF;
    SELECT array_agg(run_id ORDER BY run_id, n), array_agg(n ORDER BY run_id, n) INTO run_ids, ns
    FROM signoff.waiters
    WHERE shard = p_run.id AND namespace = p_run.namespace AND target = 'run' AND target_id = p_run.id;
    IF run_ids IS NOT NULL THEN
        woken := woken || signoff.tell_joined(
            p_run.namespace, run_ids, ns, p_now, p_run.id, p_run.state, p_run.result, p_run.error
        );
    END IF;
    RETURN woken;
END $$;

-- Cancel children of a run: {"id", "error"} of each. Those whose rows cannot be changed are cancelled later.
CREATE FUNCTION signoff.cancel_children(
    p_namespace text, p_parent_id text, p_children jsonb, p_now double precision, OUT woken text[], OUT ended jsonb
)
LANGUAGE plpgsql AS $$
DECLARE
    v_by constant text := 'run:' || p_parent_id;
    child jsonb;
    cancelled jsonb;
BEGIN
    woken := '{}';
    ended := '[]';
    IF jsonb_array_length(p_children) > 1 THEN
        BEGIN
            FOR child IN SELECT value FROM jsonb_array_elements(p_children) LOOP
                cancelled := signoff.cancel(
                    p_namespace, child ->> 'id', NULL, v_by, child ->> 'error', p_now
                );
                woken := woken || ARRAY(SELECT jsonb_array_elements_text(cancelled -> 'woken'));
                IF (cancelled -> 'ended')::boolean THEN
                    ended := ended || (child -> 'id');
                END IF;
            END LOOP;
            RETURN;
        EXCEPTION WHEN OTHERS THEN
            IF NOT signoff.is_of_row(SQLSTATE) THEN
                RAISE;
            END IF;
            woken := '{}';
            ended := '[]';
        END;
    END IF;
    FOR child IN SELECT value FROM jsonb_array_elements(p_children) LOOP
        cancelled := signoff.cancel_or_defer(p_namespace, child ->> 'id', v_by, child ->> 'error', p_now);
        woken := woken || ARRAY(SELECT jsonb_array_elements_text(cancelled -> 'woken'));
        IF (cancelled -> 'ended')::boolean THEN
            ended := ended || (child -> 'id');
        END IF;
    END LOOP;
END $$;

DROP FUNCTION signoff.cancel_child(text, text, text, text, double precision);

-- Cancel the children of a run that it gives up, {"id", "error"} of each, and let go of the runs of others that it joined.
CREATE FUNCTION signoff.give_up(
    p_namespace text, p_parent_id text, p_runs jsonb, p_now double precision
) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    given_up jsonb;
    owner text;
    own jsonb := '[]';
BEGIN
    FOR given_up IN SELECT value FROM jsonb_array_elements(p_runs) LOOP
        SELECT parent_id INTO owner FROM signoff.runs WHERE id = given_up ->> 'id' AND namespace = p_namespace;
        IF NOT FOUND THEN
            CONTINUE;
        ELSIF owner = p_parent_id THEN
            own := own || jsonb_build_array(given_up);
        ELSE
            DELETE FROM signoff.waiters
            WHERE shard = given_up ->> 'id' AND namespace = p_namespace AND target = 'run'
                AND target_id = given_up ->> 'id' AND run_id = p_parent_id;
        END IF;
    END LOOP;
    RETURN (signoff.cancel_children(p_namespace, p_parent_id, own, p_now)).woken;
END $$;

-- As in 0020_live.sql.
CREATE OR REPLACE FUNCTION signoff.write(p_namespace text, p_write jsonb, p_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_run_id constant text := p_write ->> 'run_id';
    v_epoch constant integer := (p_write ->> 'epoch')::integer;
    entries constant jsonb := p_write -> 'entries';
    v_state text;
    run signoff.runs;
    next_seq integer;
    item jsonb;
    woken text[] := '{}';
    done jsonb;
BEGIN
    SELECT state INTO v_state FROM signoff.runs
    WHERE id = v_run_id AND namespace = p_namespace AND epoch = v_epoch
    FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN '{"lost": true}';
    END IF;
    IF v_state <> 'running' THEN
        -- It may have left it by this very write.
        IF p_write ? 'entries' AND signoff.are_written(p_namespace, v_run_id, entries) THEN
            RETURN '{"paused": true}';
        END IF;
        RETURN '{"lost": true}';
    END IF;
    IF p_write ? 'entries' THEN
        next_seq := signoff.next_seq(p_namespace, v_run_id);
        IF next_seq = (entries #>> '{0,seq}')::integer THEN
            INSERT INTO signoff.journal (run_id, namespace, seq, at, kind, n, call, name, value, error, details)
            SELECT v_run_id, p_namespace, new.* FROM jsonb_populate_recordset(NULL::signoff.entry, entries) AS new;
        ELSIF signoff.are_written(p_namespace, v_run_id, entries) THEN
            RETURN signoff.pause(p_namespace, v_run_id, v_epoch, p_write -> 'pause');
        ELSE
            RETURN jsonb_build_object('next', next_seq);
        END IF;
    END IF;
    IF p_write ? 'taken' THEN
        DELETE FROM signoff.messages
        WHERE run_id = v_run_id AND namespace = p_namespace
            AND id IN (SELECT value::integer FROM jsonb_array_elements_text(p_write -> 'taken'));
    END IF;
    IF p_write ? 'opens' THEN
        FOR item IN SELECT value FROM jsonb_array_elements(p_write -> 'opens') LOOP
            woken := woken || signoff.open_promise(p_namespace, v_run_id, item, p_now);
        END LOOP;
    END IF;
    IF p_write ? 'closes' THEN
        FOR item IN SELECT value FROM jsonb_array_elements(p_write -> 'closes') LOOP
            woken := woken || signoff.close_promise(p_namespace, v_run_id, item #>> '{}', p_now);
        END LOOP;
    END IF;
    IF p_write ? 'starts' THEN
        FOR item IN SELECT value FROM jsonb_array_elements(p_write -> 'starts') LOOP
            woken := woken || signoff.start_child(p_namespace, v_run_id, item, p_now);
        END LOOP;
    END IF;
    IF p_write ? 'cancels' THEN
        woken := woken || signoff.give_up(p_namespace, v_run_id, p_write -> 'cancels', p_now);
    END IF;
    IF p_write ? 'first_seq' THEN
        UPDATE signoff.runs SET first_seq = (p_write ->> 'first_seq')::integer
        WHERE id = v_run_id AND namespace = p_namespace;
    END IF;
    IF p_write ? 'pause' OR p_write ? 'outcome' THEN
        DELETE FROM signoff.live WHERE run_id = v_run_id AND namespace = p_namespace;
    ELSIF p_write ? 'unpublishes' THEN
        DELETE FROM signoff.live
        WHERE run_id = v_run_id AND namespace = p_namespace
            AND n IN (SELECT value::integer FROM jsonb_array_elements_text(p_write -> 'unpublishes'));
    END IF;
    IF p_write ? 'pause' THEN
        done := signoff.pause(p_namespace, v_run_id, v_epoch, p_write -> 'pause');
    ELSIF p_write ? 'outcome' THEN
        run := signoff.end_row(p_namespace, v_run_id, v_epoch, p_write -> 'outcome', p_now);
        IF NOT run.retryable THEN
            woken := woken || signoff.finish(run, p_now);
        END IF;
    END IF;
    RETURN coalesce(done, '{}') || jsonb_build_object('woken', woken);
END $$;

-- As in 0032_deferred.sql.
CREATE OR REPLACE FUNCTION signoff.terminate(p_op jsonb, p_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_run_id constant text := p_op ->> 'run_id';
    run signoff.runs;
    woken text[];
    children jsonb;
    cancelled record;
BEGIN
    PERFORM FROM signoff.runs WHERE id = v_run_id AND namespace = v_namespace FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN '{}';
    END IF;
    SELECT * INTO run FROM signoff.terminate_row(v_namespace, v_run_id, p_op ->> 'error', p_now);
    IF NOT FOUND THEN
        SELECT * INTO run FROM signoff.runs WHERE id = v_run_id AND namespace = v_namespace;
        RETURN jsonb_build_object(
            'run', to_jsonb(run), 'done', signoff.is_recorded(v_namespace, p_op -> 'event')
        );
    END IF;
    PERFORM signoff.note(run, 'cancelled', run.error, p_op ->> 'details', p_now);
    DELETE FROM signoff.live WHERE run_id = v_run_id AND namespace = v_namespace;
    woken := signoff.finish(run, p_now);
    DELETE FROM signoff.waiters WHERE run_id = v_run_id AND namespace = v_namespace;
    SELECT coalesce(jsonb_agg(
        jsonb_build_object('id', child.id, 'error', signoff.error_for(p_op ->> 'child_error', child.id))
        ORDER BY child.number
    ), '[]') INTO children
    FROM (
        SELECT id, number FROM signoff.runs
        WHERE parent_id = v_run_id AND namespace = v_namespace AND parent_n IS NOT NULL
            AND (ended_at IS NULL OR retryable)
    ) AS child;
    SELECT * INTO cancelled FROM signoff.cancel_children(v_namespace, v_run_id, children, p_now);
    woken := woken || cancelled.woken;
    PERFORM signoff.record_one(v_namespace, p_op -> 'event', p_now);
    RETURN jsonb_build_object('run', to_jsonb(run), 'done', true, 'was_ended', cancelled.ended, 'woken', woken);
END $$;

-- Do one item of a job. `told` is as of signoff.do_item; `is_left` says whether another transaction has it locked.
CREATE FUNCTION signoff.do_due_item(
    p_job text, p_namespace text, p_id text, p_now double precision, p_lease_now double precision,
    p_forget_seconds double precision, p_timed_out text, OUT told jsonb, OUT is_left boolean
)
LANGUAGE plpgsql AS $$
BEGIN
    IF p_job = 'deadline' THEN
        SELECT CASE WHEN passed.woken IS NOT NULL THEN
            jsonb_build_object('all_woken', passed.woken, 'all_ended', passed.ended)
        END INTO told
        FROM signoff.pass_deadline(p_namespace, p_id, p_now, p_timed_out) AS passed;
    ELSE
        told := signoff.do_item(p_job, p_namespace, p_id, p_now, p_lease_now, p_forget_seconds);
    END IF;
    is_left := signoff.is_due(p_job, p_namespace, p_id, p_now, p_lease_now, p_forget_seconds);
    IF is_left AND told IS NOT NULL THEN
        RAISE EXCEPTION 'the database has left its row as it was';
    END IF;
END $$;

-- As signoff.do_items in 0035_left_undone.sql: each item in a subtransaction of its own, or in none.
CREATE FUNCTION signoff.do_items(
    p_job text, p_namespaces text[], p_ids text[], p_limit integer, p_now double precision,
    p_lease_now double precision, p_forget_seconds double precision, p_timed_out text, p_alone boolean,
    INOUT p_done jsonb
)
LANGUAGE plpgsql AS $$
DECLARE
    item record;
    told jsonb;
    v_code text;
    v_error text;
BEGIN
    IF cardinality(p_ids) >= p_limit THEN
        p_done := p_done || '{"is_all": false}';
    END IF;
    FOR place IN 1 .. cardinality(p_ids) LOOP
        v_code := NULL;
        IF p_alone THEN
            BEGIN
                SELECT * INTO item FROM signoff.do_due_item(
                    p_job, p_namespaces[place], p_ids[place], p_now, p_lease_now, p_forget_seconds, p_timed_out
                );
            EXCEPTION WHEN OTHERS THEN
                IF NOT signoff.is_of_row(SQLSTATE) THEN
                    RAISE;
                END IF;
                v_code := SQLSTATE;
                v_error := SQLERRM;
            END;
        ELSE
            SELECT * INTO item FROM signoff.do_due_item(
                p_job, p_namespaces[place], p_ids[place], p_now, p_lease_now, p_forget_seconds, p_timed_out
            );
        END IF;
        IF v_code IS NOT NULL THEN
            p_done := jsonb_set(p_done, '{failures}', (p_done -> 'failures') || jsonb_build_array(
                jsonb_build_array(p_job, p_namespaces[place], p_ids[place], v_code, v_error)
            ));
            CONTINUE;
        END IF;
        IF item.is_left THEN
            p_done := jsonb_set(p_done, '{busy}', (p_done -> 'busy') || jsonb_build_array(
                jsonb_build_array(p_job, p_namespaces[place], p_ids[place])
            ));
        END IF;
        told := item.told;
        p_done := p_done || jsonb_build_object(
            'woken', (p_done -> 'woken') || coalesce(told -> 'all_woken', '[]') || (
                SELECT coalesce(jsonb_agg(jsonb_build_array(p_namespaces[place], id)), '[]')
                FROM jsonb_array_elements_text(coalesce(told -> 'woken', '[]')) AS id
            ),
            'ended', (p_done -> 'ended') || coalesce(told -> 'all_ended', '[]'),
            'freed', (p_done -> 'freed') || CASE
                WHEN told ? 'freed' THEN jsonb_build_array(jsonb_build_array(p_namespaces[place], p_ids[place]))
                ELSE '[]'
            END,
            'opened', (p_done -> 'opened') || CASE
                WHEN told ? 'opened' THEN jsonb_build_array(p_namespaces[place]) ELSE '[]'
            END
        );
    END LOOP;
END $$;

-- The same, in one subtransaction, and one by one only if that fails.
CREATE OR REPLACE FUNCTION signoff.do_items(
    p_job text, p_namespaces text[], p_ids text[], p_limit integer, p_now double precision,
    p_lease_now double precision, p_forget_seconds double precision, p_timed_out text, INOUT p_done jsonb
)
LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(p_ids) = 0 THEN
        RETURN;
    END IF;
    BEGIN
        p_done := signoff.do_items(
            p_job, p_namespaces, p_ids, p_limit, p_now, p_lease_now, p_forget_seconds, p_timed_out, false, p_done
        );
        RETURN;
    EXCEPTION WHEN OTHERS THEN
        IF NOT signoff.is_of_row(SQLSTATE) THEN
            RAISE;
        END IF;
    END;
    p_done := signoff.do_items(
        p_job, p_namespaces, p_ids, p_limit, p_now, p_lease_now, p_forget_seconds, p_timed_out, true, p_done
    );
END $$;

-- As in 0030_claims_one_by_one.sql, but at once if that goes well: the runs to pass over are known.
CREATE OR REPLACE FUNCTION signoff.claim_each(
    p_op jsonb, p_now double precision, p_lease_now double precision, p_skipped text[], p_known text[],
    p_failures integer, p_bytes bigint
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    db_now constant double precision := extract(epoch FROM clock_timestamp());
    v_now constant double precision := coalesce(p_now, db_now);
    v_lease_until constant double precision :=
        coalesce(p_lease_now, db_now) + (p_op ->> 'lease_seconds')::double precision;
    v_namespace constant text := p_op ->> 'namespace';
    v_group constant text := p_op ->> 'group';
    v_worker_id constant text := p_op ->> 'worker_id';
    v_token constant text := p_op ->> 'token';
    v_limit constant integer := (p_op ->> 'limit')::integer;
    workflows constant text[] := ARRAY(SELECT jsonb_array_elements_text(p_op -> 'workflows'));
    choice jsonb;
    claimed jsonb;
    are_claimed boolean := false;
    is_suspect boolean;
    size bigint := 0;
    v_id text;
    v_code text;
    v_error text;
    claims jsonb[] := '{}';
    failures jsonb := '[]';
    due jsonb := '{}';
BEGIN
    PERFORM FROM signoff.runs
    WHERE worker_id = v_worker_id AND claim_token = v_token AND namespace = v_namespace LIMIT 1;
    IF FOUND THEN  -- it is this very claim, whose reply was lost
        RETURN signoff.claim(p_op, v_now, coalesce(p_lease_now, db_now))
            || jsonb_build_object('failures', failures, 'ready', p_known);
    END IF;
    PERFORM signoff.pass_over(v_namespace, v_group, p_skipped);
    BEGIN
        choice := signoff.choose(v_namespace, v_group, workflows, v_worker_id, v_limit, v_now, p_skipped);
        PERFORM signoff.claim_rows(
            v_namespace, ARRAY(SELECT jsonb_array_elements_text(choice -> 'ids')), v_worker_id, v_token, v_lease_until
        );
        SELECT coalesce(array_agg(
            jsonb_build_array(signoff.run_values(run), CASE WHEN wakes > 0 THEN (
                SELECT jsonb_agg(to_jsonb(messages) ORDER BY id) FROM signoff.messages
                WHERE run_id = run.id AND namespace = run.namespace
            ) END)
            ORDER BY priority DESC, ready_at, number
        ), '{}') INTO claims
        FROM signoff.runs AS run
        WHERE worker_id = v_worker_id AND claim_token = v_token AND namespace = v_namespace;
        failures := coalesce(choice -> 'failures', '[]');
        due := choice - 'ids' - 'failures';
        are_claimed := true;
    EXCEPTION WHEN OTHERS THEN
        IF NOT signoff.is_of_row(SQLSTATE) THEN
            RAISE;
        END IF;
    END;
    WHILE NOT are_claimed AND cardinality(claims) < v_limit AND jsonb_array_length(failures) < p_failures
        AND size < p_bytes LOOP
        v_id := NULL;
        v_code := NULL;
        BEGIN
            choice := signoff.choose(v_namespace, v_group, workflows, v_worker_id, 1, v_now, p_skipped);
            v_id := choice #>> '{ids,0}';
            IF v_id IS NOT NULL THEN
                PERFORM signoff.claim_rows(v_namespace, ARRAY[v_id], v_worker_id, v_token, v_lease_until);
                SELECT takeovers >= 2, jsonb_build_array(signoff.run_values(run), CASE WHEN wakes > 0 THEN (
                    SELECT jsonb_agg(to_jsonb(messages) ORDER BY id) FROM signoff.messages
                    WHERE run_id = run.id AND namespace = run.namespace
                ) END)
                INTO is_suspect, claimed
                FROM signoff.runs AS run WHERE id = v_id AND namespace = v_namespace;
            END IF;
        EXCEPTION WHEN OTHERS THEN
            IF NOT signoff.is_of_row(SQLSTATE) OR v_id IS NULL THEN
                RAISE;
            END IF;
            v_code := SQLSTATE;
            v_error := SQLERRM;
        END;
        IF v_code IS NOT NULL THEN
            failures := failures || jsonb_build_array(jsonb_build_array(v_id, v_code, v_error));
            p_skipped := p_skipped || v_id;
            PERFORM signoff.pass_over(v_namespace, v_group, ARRAY[v_id]);
            CONTINUE;
        END IF;
        IF choice ? 'failures' THEN
            failures := failures || (choice -> 'failures');
            p_skipped := p_skipped || ARRAY(
                SELECT failed ->> 0 FROM jsonb_array_elements(choice -> 'failures') AS failed
            );
        END IF;
        due := due || choice - 'ids' - 'failures';
        EXIT WHEN v_id IS NULL;
        claims := claims || claimed;
        size := size + length(claimed::text);
        EXIT WHEN is_suspect;
    END LOOP;
    RETURN due || jsonb_build_object(
        'claims', to_jsonb(claims), 'failures', failures,
        'claimable', current_setting('signoff.claimable', true) = 'yes',
        'ready', ARRAY(
            SELECT run.id FROM unnest(p_known) AS listed (id)
            CROSS JOIN LATERAL (
                SELECT runs.id FROM signoff.runs AS runs
                WHERE runs.id = listed.id AND runs.namespace = v_namespace
                    AND runs.state || '' = 'ready' AND NOT runs.blocked
            ) AS run
        )
    );
END $$;
CALL signoff.plan_by_index('signoff.claim_each');
