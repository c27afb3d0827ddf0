-- What time brings, one by one: for when one item fails, which must stop no other. Each item is done as in 0002, 0006,
-- 0007 and 0024, in a subtransaction of its own.

-- How an item is named among those to pass over.
CREATE FUNCTION signoff.item_name(p_namespace text, p_id text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT length(p_namespace) || ':' || p_namespace || p_id $$;

-- When the next thing is due, but for items to pass over; see signoff.next_due.
CREATE FUNCTION signoff.next_due_beside(
    p_now double precision, p_lease_now double precision, p_forget_seconds double precision, p_skipped jsonb
) RETURNS double precision
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN least(
        (SELECT due_at FROM signoff.promises
            WHERE state = 'pending' AND due_at IS NOT NULL
                AND NOT (p_skipped -> 'promise') ? signoff.item_name(namespace, id)
            ORDER BY due_at LIMIT 1),
        (SELECT wake_at FROM signoff.runs
            WHERE wake_at IS NOT NULL AND NOT (p_skipped -> 'timer') ? signoff.item_name(namespace, id)
            ORDER BY wake_at LIMIT 1),
        (SELECT deadline_at FROM signoff.runs
            WHERE deadline_at IS NOT NULL AND NOT deadline_passed AND ended_at IS NULL
                AND NOT (p_skipped -> 'deadline') ? signoff.item_name(namespace, id)
            ORDER BY deadline_at LIMIT 1),
        (SELECT opens_at FROM signoff.groups
            WHERE opens_at IS NOT NULL AND NOT (p_skipped -> 'rate') ? signoff.item_name(namespace, name)
            ORDER BY opens_at LIMIT 1),
        (SELECT p_now + seen_at + p_forget_seconds - p_lease_now FROM signoff.workers
            WHERE NOT (p_skipped -> 'worker') ? signoff.item_name(namespace, id)
            ORDER BY seen_at LIMIT 1),
        (SELECT p_now + min(lease_until) - p_lease_now FROM signoff.runs
            WHERE worker_id IS NOT NULL AND NOT (p_skipped -> 'lease') ? signoff.item_name(namespace, id))
    );
END $$;

-- Do one item of a job. Returns {"woken": ..., "freed": ..., "ended": ..., "opened": ...}, each a list of run ids, or {}
-- where another process has it locked.
CREATE FUNCTION signoff.do_item(
    p_job text, p_namespace text, p_id text, p_now double precision, p_timed_out text
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
    promise signoff.promises;
    v_run_id text;
    v_woken text[];
BEGIN
    CASE p_job
    WHEN 'promise' THEN
        SELECT run_id INTO v_run_id FROM signoff.promises
        WHERE shard = signoff.shard_of(p_id) AND namespace = p_namespace AND id = p_id;
        IF v_run_id IS NOT NULL THEN
            PERFORM FROM signoff.runs
            WHERE id = v_run_id AND namespace = p_namespace AND signoff.try_lock_slots(slots)
            FOR NO KEY UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                RETURN '{}';
            END IF;
        END IF;
        PERFORM FROM signoff.promises
        WHERE shard = signoff.shard_of(p_id) AND namespace = p_namespace AND id = p_id AND settled_at IS NULL
        FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN '{}';
        END IF;
        UPDATE signoff.promises SET state = 'timed_out', settled_at = p_now, origin = '{"way":"timer"}'
        WHERE shard = signoff.shard_of(p_id) AND namespace = p_namespace AND id = p_id
        RETURNING * INTO promise;
        RETURN jsonb_build_object('woken', to_jsonb(signoff.tell_all(promise, p_now)));
    WHEN 'timer' THEN
        PERFORM FROM signoff.runs
        WHERE id = p_id AND namespace = p_namespace AND wake_at <= p_now AND signoff.try_lock_slots(slots)
        FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN '{}';
        END IF;
        UPDATE signoff.runs SET state = 'ready', ready_at = p_now, wake_at = NULL
        WHERE id = p_id AND namespace = p_namespace
        RETURNING * INTO run;
        PERFORM signoff.line_up(run);
        RETURN jsonb_build_object('freed', jsonb_build_array(p_id));
    WHEN 'lease' THEN
        SELECT * INTO run FROM signoff.runs
        WHERE id = p_id AND namespace = p_namespace AND worker_id IS NOT NULL AND signoff.try_lock_slots(slots)
        FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN '{}';
        END IF;
        UPDATE signoff.runs AS runs
        SET state = CASE WHEN suspended_at IS NULL THEN 'ready' ELSE 'paused' END, ready_at = p_now,
            worker_id = NULL, lease_until = NULL,
            (takeovers, takeover_seq) = (
                SELECT p_takeovers, p_seq
                FROM signoff.count_takeover(runs.namespace, runs.id, runs.takeovers, runs.takeover_seq)
            )
        WHERE id = p_id AND namespace = p_namespace;
        PERFORM signoff.slot_freed(run.namespace, run.group_name, run.slots);
        RETURN jsonb_build_object('freed', jsonb_build_array(p_id));
    WHEN 'rate' THEN
        UPDATE signoff.groups SET opens_at = NULL WHERE name = p_id AND namespace = p_namespace;
        RETURN jsonb_build_object('opened', jsonb_build_array(p_id));
    WHEN 'worker' THEN
        DELETE FROM signoff.workers WHERE id = p_id;
        RETURN '{}';
    END CASE;
END $$;

-- Do the items of a job that are due, and add to `p_done` what came of them. Errors that are not a row's own are raised:
-- lost connections, deadlocks, a server that stops or is full.
CREATE FUNCTION signoff.do_items(
    p_job text, p_namespaces text[], p_ids text[], p_limit integer, p_now double precision, p_timed_out text,
    INOUT p_done jsonb
)
LANGUAGE plpgsql AS $$
DECLARE
    told jsonb;
    v_code text;
    v_error text;
BEGIN
    IF cardinality(p_ids) >= p_limit THEN
        p_done := p_done || '{"is_all": false}';
    END IF;
    FOR place IN 1 .. cardinality(p_ids) LOOP
        v_code := NULL;
        BEGIN
            IF p_job = 'deadline' THEN
                SELECT jsonb_build_object('all_woken', passed.woken, 'all_ended', passed.ended) INTO told
                FROM signoff.pass_deadline(p_namespaces[place], p_ids[place], p_now, p_timed_out) AS passed;
            ELSE
                told := signoff.do_item(p_job, p_namespaces[place], p_ids[place], p_now, p_timed_out);
            END IF;
        EXCEPTION WHEN OTHERS THEN
            IF left(SQLSTATE, 2) IN ('08', '25', '40', '53', '55', '57', '58') THEN
                RAISE;
            END IF;
            v_code := SQLSTATE;
            v_error := SQLERRM;
        END;
        IF v_code IS NOT NULL THEN
            p_done := jsonb_set(p_done, '{failures}', (p_done -> 'failures') || jsonb_build_array(
                jsonb_build_array(p_job, p_namespaces[place], p_ids[place], v_code, v_error)
            ));
            CONTINUE;
        END IF;
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

-- Tell one run that its deadline has passed: the body of the loop of signoff.pass_deadlines.
CREATE FUNCTION signoff.pass_deadline(
    p_namespace text, p_id text, p_now double precision, p_error text, OUT woken jsonb, OUT ended jsonb
)
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
    told text[];
BEGIN
    woken := '[]';
    ended := '[]';
    SELECT * INTO run FROM signoff.runs
    WHERE id = p_id AND namespace = p_namespace AND signoff.try_lock_slots(slots)
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND OR run.deadline_passed OR run.ended_at IS NOT NULL THEN
        RETURN;
    END IF;
    IF run.epoch = 0 OR run.state = 'ready' AND signoff.next_seq(run.namespace, run.id) = 0 THEN
        IF run.session_id IS NOT NULL
            AND NOT signoff.try_lock_slots(signoff.turns_of(run.namespace, run.session_id)) THEN
            RETURN;
        END IF;
        IF run.parent_n IS NOT NULL THEN
            PERFORM FROM signoff.runs WHERE id = run.parent_id AND namespace = run.namespace
            FOR NO KEY UPDATE SKIP LOCKED;
            IF NOT FOUND AND EXISTS (
                SELECT FROM signoff.runs WHERE id = run.parent_id AND namespace = run.namespace
            ) THEN
                RETURN;
            END IF;
        END IF;
        run := signoff.expire_row(run.namespace, run.id, signoff.error_for(p_error, run.id), p_now);
        PERFORM signoff.note(run, 'failed', run.error, NULL, p_now);
        ended := jsonb_build_array(jsonb_build_array(run.namespace, run.id));
        told := signoff.finish(run, p_now);
    ELSE
        UPDATE signoff.runs SET deadline_passed = true WHERE id = run.id AND namespace = run.namespace;
        told := signoff.leave(run.namespace, run.id, 'deadline', p_now);
    END IF;
    woken := (SELECT coalesce(jsonb_agg(jsonb_build_array(run.namespace, id)), '[]') FROM unnest(told) AS id);
END $$;

CREATE OR REPLACE FUNCTION signoff.pass_deadlines(
    p_now double precision, p_limit integer, p_error text, OUT woken jsonb, OUT ended jsonb
)
LANGUAGE plpgsql AS $$
DECLARE
    late record;
    passed record;
BEGIN
    woken := '[]';
    ended := '[]';
    FOR late IN
        SELECT id, namespace FROM signoff.runs
        WHERE deadline_at IS NOT NULL AND NOT deadline_passed AND ended_at IS NULL AND deadline_at <= p_now
        ORDER BY deadline_at LIMIT p_limit
    LOOP
        SELECT * INTO passed FROM signoff.pass_deadline(late.namespace, late.id, p_now, p_error);
        woken := woken || passed.woken;
        ended := ended || passed.ended;
    END LOOP;
END $$;

-- As signoff.due, one by one, but for the items in `p_skipped`: {"promise": {name: true, ...}, "timer": ..., ...}. Returns
-- also {"failures": [[job, namespace, id, SQLSTATE, error], ...], "is_all": whether no more than `p_limit` were due}.
CREATE FUNCTION signoff.due_each(
    p_now double precision, p_lease_now double precision, p_limit integer, p_forget_seconds double precision,
    p_timed_out text, p_skipped jsonb
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    db_now constant double precision := extract(epoch FROM clock_timestamp());
    v_now constant double precision := coalesce(p_now, db_now);
    v_lease_now constant double precision := coalesce(p_lease_now, db_now);
    v_skipped jsonb := '{"promise": {}, "timer": {}, "deadline": {}, "lease": {}, "rate": {}, "worker": {}}'::jsonb || p_skipped;
    done jsonb := '{"woken": [], "freed": [], "ended": [], "opened": [], "failures": [], "is_all": true}';
    namespaces text[];
    ids text[];
BEGIN
    SELECT array_agg(namespace), array_agg(id) INTO namespaces, ids FROM (
        SELECT namespace, id FROM signoff.promises
        WHERE state = 'pending' AND due_at IS NOT NULL AND due_at <= v_now
            AND NOT (v_skipped -> 'promise') ? signoff.item_name(namespace, id)
        ORDER BY due_at LIMIT p_limit
    ) AS item;
    done := signoff.do_items('promise', coalesce(namespaces, '{}'), coalesce(ids, '{}'), p_limit, v_now, NULL, done);
    SELECT array_agg(namespace), array_agg(id) INTO namespaces, ids FROM (
        SELECT namespace, id FROM signoff.runs
        WHERE wake_at IS NOT NULL AND wake_at <= v_now
            AND NOT (v_skipped -> 'timer') ? signoff.item_name(namespace, id)
        ORDER BY wake_at LIMIT p_limit
    ) AS item;
    done := signoff.do_items('timer', coalesce(namespaces, '{}'), coalesce(ids, '{}'), p_limit, v_now, NULL, done);
    SELECT array_agg(namespace), array_agg(id) INTO namespaces, ids FROM (
        SELECT namespace, id FROM signoff.runs
        WHERE deadline_at IS NOT NULL AND NOT deadline_passed AND ended_at IS NULL AND deadline_at <= v_now
            AND NOT (v_skipped -> 'deadline') ? signoff.item_name(namespace, id)
        ORDER BY deadline_at LIMIT p_limit
    ) AS item;
    done := signoff.do_items(
        'deadline', coalesce(namespaces, '{}'), coalesce(ids, '{}'), p_limit, v_now, p_timed_out, done
    );
    SELECT array_agg(namespace), array_agg(id) INTO namespaces, ids FROM (
        SELECT namespace, id FROM signoff.runs
        WHERE worker_id IS NOT NULL AND lease_until <= v_lease_now
            AND NOT (v_skipped -> 'lease') ? signoff.item_name(namespace, id)
        ORDER BY lease_until LIMIT p_limit
    ) AS item;
    done := signoff.do_items('lease', coalesce(namespaces, '{}'), coalesce(ids, '{}'), p_limit, v_now, NULL, done);
    SELECT array_agg(namespace), array_agg(name) INTO namespaces, ids FROM (
        SELECT namespace, name FROM signoff.groups
        WHERE opens_at IS NOT NULL AND opens_at <= v_now
            AND NOT (v_skipped -> 'rate') ? signoff.item_name(namespace, name)
        ORDER BY opens_at LIMIT p_limit
    ) AS item;
    done := signoff.do_items('rate', coalesce(namespaces, '{}'), coalesce(ids, '{}'), p_limit, v_now, NULL, done);
    SELECT array_agg(namespace), array_agg(id) INTO namespaces, ids FROM (
        SELECT namespace, id FROM signoff.workers
        WHERE seen_at <= v_lease_now - p_forget_seconds
            AND NOT (v_skipped -> 'worker') ? signoff.item_name(namespace, id)
        ORDER BY seen_at LIMIT p_limit
    ) AS item;
    done := signoff.do_items('worker', coalesce(namespaces, '{}'), coalesce(ids, '{}'), p_limit, v_now, NULL, done);
    SELECT jsonb_object_agg(job, (v_skipped -> job) || (
        SELECT coalesce(jsonb_object_agg(signoff.item_name(failed ->> 1, failed ->> 2), true), '{}')
        FROM jsonb_array_elements(done -> 'failures') AS failed WHERE failed ->> 0 = job
    )) INTO v_skipped
    FROM jsonb_object_keys(v_skipped) AS job;
    RETURN done || jsonb_build_object(
        'now', db_now, 'next', signoff.next_due_beside(v_now, v_lease_now, p_forget_seconds, v_skipped)
    );
END $$;
CALL signoff.plan_by_index('signoff.due_each');

-- The oldest events that wait for their seals, of all namespaces but some. One that was removed meanwhile fills no page.
CREATE FUNCTION signoff.waiting_for_seals(p_besides text[], p_limit integer) RETURNS SETOF signoff.audit
LANGUAGE plpgsql STABLE AS $$
DECLARE
    waiting signoff.unsealed;
    event signoff.audit;
    v_left integer := p_limit;
BEGIN
    WHILE v_left > 0 LOOP
        SELECT * INTO waiting FROM signoff.unsealed
        WHERE number > coalesce(waiting.number, -1) AND namespace <> ALL (p_besides)
        ORDER BY number LIMIT 1;
        EXIT WHEN NOT FOUND;
        SELECT * INTO event FROM signoff.audit
        WHERE shard = waiting.shard AND namespace = waiting.namespace AND id = waiting.event_id;
        IF FOUND THEN
            RETURN NEXT event;
            v_left := v_left - 1;
        END IF;
    END LOOP;
END $$;
CALL signoff.plan_by_index('signoff.waiting_for_seals');

-- As signoff.delete_ended, each run in a subtransaction of its own, but for the runs in `p_skipped`. Returns {"deleted":
-- ids, "failures": [[id, SQLSTATE, error], ...], "is_all": whether no more are to be deleted}.
CREATE FUNCTION signoff.delete_each(
    p_namespace text, p_before double precision, p_limit integer, p_skipped text[], p_failures integer
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
    v_code text;
    v_error text;
    deleted jsonb := '[]';
    failures jsonb := '[]';
BEGIN
    WHILE jsonb_array_length(deleted) < p_limit AND jsonb_array_length(failures) < p_failures LOOP
        v_code := NULL;
        BEGIN
            SELECT * INTO run FROM signoff.runs
            WHERE namespace = p_namespace AND ended_at < p_before
                AND parent_id IS NULL AND ended_at IS NOT NULL AND NOT retryable AND id <> ALL (p_skipped)
            ORDER BY ended_at, number LIMIT 1
            FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                RETURN jsonb_build_object('deleted', deleted, 'failures', failures, 'is_all', true);
            END IF;
            PERFORM signoff.delete_run(run);
        EXCEPTION WHEN OTHERS THEN
            IF left(SQLSTATE, 2) IN ('08', '25', '40', '53', '55', '57', '58') OR run.id IS NULL THEN
                RAISE;
            END IF;
            v_code := SQLSTATE;
            v_error := SQLERRM;
        END;
        IF v_code IS NULL THEN
            deleted := deleted || to_jsonb(run.id);
        ELSE
            failures := failures || jsonb_build_array(jsonb_build_array(run.id, v_code, v_error));
            p_skipped := p_skipped || run.id;
        END IF;
    END LOOP;
    RETURN jsonb_build_object('deleted', deleted, 'failures', failures, 'is_all', false);
END $$;
CALL signoff.plan_by_index('signoff.delete_each');
