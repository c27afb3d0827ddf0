-- Deadlines, timers, lost leases and all else that falls due. Many at once, and one by one for when one item fails, which
-- must stop no other: each item is then done in a subtransaction of its own.
--
-- A row that a trigger leaves as it was, without an error, makes no periodic job go on without a pause: its item is set
-- aside. An item whose row another transaction has locked is left alone for a while.

-- How long a begun run past its deadline waits for a worker to clean up: GRACE_SECONDS of stores/contract/timers.py.
CREATE OR REPLACE FUNCTION signoff.grace_seconds() RETURNS double precision
LANGUAGE sql IMMUTABLE AS $$ SELECT 300.0::double precision $$;

-- When the next thing is due, in business time: a lease that ends in three seconds is due in three seconds.
CREATE OR REPLACE FUNCTION signoff.next_due(
    p_now double precision, p_lease_now double precision, p_forget_seconds double precision
) RETURNS double precision
LANGUAGE plpgsql STABLE AS $$
BEGIN
    -- Not min(): a plan made for an empty table would read all of a full one.
    RETURN least(
        (SELECT due_at FROM signoff.promises WHERE state = 'pending' AND due_at IS NOT NULL ORDER BY due_at LIMIT 1),
        (SELECT wake_at FROM signoff.runs WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1),
        (SELECT deadline_at FROM signoff.runs
            WHERE deadline_at IS NOT NULL AND NOT deadline_passed AND ended_at IS NULL
            ORDER BY deadline_at LIMIT 1),
        (SELECT greatest(deadline_at, ready_at) + signoff.grace_seconds() FROM signoff.runs
            WHERE deadline_at IS NOT NULL AND deadline_passed AND state = 'ready'
            ORDER BY greatest(deadline_at, ready_at) LIMIT 1),
        (SELECT opens_at FROM signoff.groups WHERE opens_at IS NOT NULL ORDER BY opens_at LIMIT 1),
        (SELECT p_now + seen_at + p_forget_seconds - p_lease_now FROM signoff.workers ORDER BY seen_at LIMIT 1),
        (SELECT p_now + min(lease_until) - p_lease_now FROM signoff.runs WHERE worker_id IS NOT NULL),
        (SELECT p_now + lease_until - p_lease_now FROM signoff.tasks
            WHERE lease_until IS NOT NULL ORDER BY lease_until LIMIT 1)
    );
END $$;

-- When the next thing is due, but for items to pass over; see signoff.next_due.
CREATE OR REPLACE FUNCTION signoff.next_due_beside(
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
        (SELECT greatest(deadline_at, ready_at) + signoff.grace_seconds() FROM signoff.runs
            WHERE deadline_at IS NOT NULL AND deadline_passed AND state = 'ready'
                AND NOT (p_skipped -> 'grace') ? signoff.item_name(namespace, id)
            ORDER BY greatest(deadline_at, ready_at) LIMIT 1),
        (SELECT opens_at FROM signoff.groups
            WHERE opens_at IS NOT NULL AND NOT (p_skipped -> 'rate') ? signoff.item_name(namespace, name)
            ORDER BY opens_at LIMIT 1),
        (SELECT p_now + seen_at + p_forget_seconds - p_lease_now FROM signoff.workers
            WHERE NOT (p_skipped -> 'worker') ? signoff.item_name(namespace, id)
            ORDER BY seen_at LIMIT 1),
        (SELECT p_now + min(lease_until) - p_lease_now FROM signoff.runs
            WHERE worker_id IS NOT NULL AND NOT (p_skipped -> 'lease') ? signoff.item_name(namespace, id)),
        (SELECT p_now + lease_until - p_lease_now FROM signoff.tasks
            WHERE lease_until IS NOT NULL AND NOT (p_skipped -> 'task') ? signoff.item_name(namespace, id)
            ORDER BY lease_until LIMIT 1)
    );
END $$;

-- How an item is named among those to pass over.
CREATE OR REPLACE FUNCTION signoff.item_name(p_namespace text, p_id text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT length(p_namespace) || ':' || p_namespace || p_id $$;

-- Whether an item of a job of time is due; see signoff.due_each.
CREATE OR REPLACE FUNCTION signoff.is_due(
    p_job text, p_namespace text, p_id text, p_now double precision, p_lease_now double precision,
    p_forget_seconds double precision
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    CASE p_job
    WHEN 'promise' THEN
        PERFORM FROM signoff.promises
        WHERE shard = signoff.shard_of(p_id) AND namespace = p_namespace AND id = p_id AND settled_at IS NULL
            AND due_at <= p_now;
    WHEN 'timer' THEN
        PERFORM FROM signoff.runs WHERE id = p_id AND namespace = p_namespace AND wake_at <= p_now;
    WHEN 'deadline' THEN
        PERFORM FROM signoff.runs
        WHERE id = p_id AND namespace = p_namespace AND deadline_at <= p_now AND NOT deadline_passed
            AND ended_at IS NULL;
    WHEN 'grace' THEN
        RETURN coalesce(signoff.is_unclaimed((
            SELECT runs FROM signoff.runs WHERE id = p_id AND namespace = p_namespace
        ), p_now), false);
    WHEN 'lease' THEN
        PERFORM FROM signoff.runs
        WHERE id = p_id AND namespace = p_namespace AND worker_id IS NOT NULL AND lease_until <= p_lease_now;
    WHEN 'task' THEN
        PERFORM FROM signoff.tasks
        WHERE shard = signoff.shard_of(p_id) AND namespace = p_namespace AND id = p_id AND lease_until <= p_lease_now;
    WHEN 'rate' THEN
        PERFORM FROM signoff.groups WHERE name = p_id AND namespace = p_namespace AND opens_at <= p_now;
    WHEN 'worker' THEN
        PERFORM FROM signoff.workers WHERE id = p_id AND seen_at <= p_lease_now - p_forget_seconds;
    END CASE;
    RETURN FOUND;
END $$;

-- Time out promises. A run is locked before its promises, by everybody; what others have locked is left to them. Of each
-- promise there is a row without an id, and one of each run that was woken.
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
        PERFORM FROM signoff.promises
        WHERE shard = late.shard AND namespace = late.namespace AND id = late.id AND settled_at IS NULL
        FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND OR NOT signoff.try_lock_tasks_of(late.namespace, late.id);
        UPDATE signoff.promises SET state = 'timed_out', settled_at = p_now, origin = '{"way":"timer"}'
        WHERE shard = late.shard AND namespace = late.namespace AND id = late.id
        RETURNING * INTO promise;
        CONTINUE WHEN NOT FOUND;
        RETURN QUERY SELECT late.namespace, NULL::text;
        RETURN QUERY SELECT late.namespace, woken FROM unnest(signoff.tell_all(promise, p_now)) AS woken;
    END LOOP;
END $$;

-- Whether a run has waited for a worker for the grace period after its deadline.
CREATE OR REPLACE FUNCTION signoff.is_unclaimed(p_run signoff.runs, p_now double precision) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT (p_run).deadline_at IS NOT NULL AND (p_run).deadline_passed AND (p_run).state = 'ready'
        AND greatest((p_run).deadline_at, (p_run).ready_at) <= p_now - signoff.grace_seconds()
$$;

-- End a run past its deadline without its code. The caller has it locked. p_error has the error of the run as "run", and
-- that of a child as "child". `woken` is NULL where another process has what it needs locked.
CREATE OR REPLACE FUNCTION signoff.expire(
    run signoff.runs, p_now double precision, p_error text, OUT woken jsonb, OUT ended jsonb
)
LANGUAGE plpgsql AS $$
DECLARE
    woken_ids text[];
    children jsonb;
    cancelled record;
BEGIN
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
    run := signoff.expire_row(
        run.namespace, run.id, signoff.error_for(p_error::jsonb ->> 'run', run.id), p_now
    );
    IF run.id IS NULL THEN
        RAISE EXCEPTION 'the database has left its row as it was';
    END IF;
    PERFORM signoff.note(run, 'failed', run.error, NULL, p_now);
    DELETE FROM signoff.live WHERE run_id = run.id AND namespace = run.namespace;
    woken_ids := signoff.finish(run, p_now);
    DELETE FROM signoff.waiters WHERE run_id = run.id AND namespace = run.namespace;
    SELECT coalesce(jsonb_agg(
        jsonb_build_object('id', child.id, 'error', signoff.error_for(p_error::jsonb ->> 'child', child.id))
        ORDER BY child.number
    ), '[]') INTO children
    FROM (
        SELECT id, number FROM signoff.runs
        WHERE parent_id = run.id AND namespace = run.namespace AND parent_n IS NOT NULL
            AND (ended_at IS NULL OR retryable)
    ) AS child;
    SELECT * INTO cancelled FROM signoff.cancel_children(run.namespace, run.id, children, p_now);
    ended := (
        SELECT jsonb_agg(jsonb_build_array(run.namespace, id))
        FROM jsonb_array_elements_text(to_jsonb(ARRAY[run.id]) || cancelled.ended) AS id
    );
    woken_ids := woken_ids || cancelled.woken;
    woken := (SELECT coalesce(jsonb_agg(jsonb_build_array(run.namespace, id)), '[]') FROM unnest(woken_ids) AS id);
END $$;

-- Tell one run that its deadline has passed, or end it if it was never begun: the body of the loop of
-- signoff.pass_deadlines. Errors and results are as of signoff.expire.
CREATE OR REPLACE FUNCTION signoff.pass_deadline(
    p_namespace text, p_id text, p_now double precision, p_error text, OUT woken jsonb, OUT ended jsonb
)
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
BEGIN
    SELECT * INTO run FROM signoff.runs
    WHERE id = p_id AND namespace = p_namespace AND signoff.try_lock_slots(slots)
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND OR run.deadline_passed OR run.ended_at IS NOT NULL OR run.deadline_at > p_now THEN
        RETURN;
    END IF;
    IF run.epoch = 0 OR run.state = 'ready' AND signoff.next_seq(run.namespace, run.id) = 0 THEN
        SELECT * INTO woken, ended FROM signoff.expire(run, p_now, p_error);
        RETURN;
    END IF;
    IF run.state = 'ready' AND run.deadline_at < p_now - signoff.grace_seconds() / 2 THEN
        run.ready_at := p_now;  -- no process has noticed the deadline in time: the grace period counts from now
    END IF;
    UPDATE signoff.runs SET deadline_passed = true, ready_at = run.ready_at
    WHERE id = run.id AND namespace = run.namespace;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the database has left its row as it was';
    END IF;
    ended := '[]';
    woken := (
        SELECT coalesce(jsonb_agg(jsonb_build_array(run.namespace, id)), '[]')
        FROM unnest(signoff.leave(run.namespace, run.id, 'deadline', p_now)) AS id
    );
END $$;

-- End one run that no worker has claimed in the grace period after its deadline: the body of the loop of
-- signoff.end_unclaimed. Errors and results are as of signoff.expire.
CREATE OR REPLACE FUNCTION signoff.end_unclaimed_run(
    p_namespace text, p_id text, p_now double precision, p_error text, OUT woken jsonb, OUT ended jsonb
)
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
BEGIN
    SELECT * INTO run FROM signoff.runs
    WHERE id = p_id AND namespace = p_namespace AND signoff.try_lock_slots(slots)
    FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND AND signoff.is_unclaimed(run, p_now) THEN
        SELECT * INTO woken, ended FROM signoff.expire(run, p_now, p_error);
    END IF;
END $$;

-- End runs that no worker has claimed in the grace period after their deadline; `passed` is how many.
CREATE OR REPLACE FUNCTION signoff.end_unclaimed(
    p_now double precision, p_limit integer, p_error text, OUT woken jsonb, OUT ended jsonb, OUT passed integer
)
LANGUAGE plpgsql AS $$
DECLARE
    late record;
    touched record;
BEGIN
    woken := '[]';
    ended := '[]';
    passed := 0;
    FOR late IN
        SELECT id, namespace FROM signoff.runs
        WHERE deadline_at IS NOT NULL AND deadline_passed AND state = 'ready'
            AND greatest(deadline_at, ready_at) <= p_now - signoff.grace_seconds()
        ORDER BY greatest(deadline_at, ready_at) LIMIT p_limit
    LOOP
        SELECT * INTO touched FROM signoff.end_unclaimed_run(late.namespace, late.id, p_now, p_error);
        CONTINUE WHEN touched.woken IS NULL;
        woken := woken || touched.woken;
        ended := ended || touched.ended;
        passed := passed + 1;
    END LOOP;
END $$;

-- Tell runs that their deadline has passed; `passed` is how many. A run that was never begun ends here. Each run that gets a
-- message is locked first, or another time.
CREATE OR REPLACE FUNCTION signoff.pass_deadlines(
    p_now double precision, p_limit integer, p_error text, OUT woken jsonb, OUT ended jsonb,
    OUT passed integer
)
LANGUAGE plpgsql AS $$
DECLARE
    late record;
    touched record;
BEGIN
    woken := '[]';
    ended := '[]';
    passed := 0;
    FOR late IN
        SELECT id, namespace FROM signoff.runs
        WHERE deadline_at IS NOT NULL AND NOT deadline_passed AND ended_at IS NULL AND deadline_at <= p_now
        ORDER BY deadline_at LIMIT p_limit
    LOOP
        SELECT * INTO touched FROM signoff.pass_deadline(late.namespace, late.id, p_now, p_error);
        CONTINUE WHEN touched.woken IS NULL;
        woken := woken || touched.woken;
        ended := ended || touched.ended;
        passed := passed + 1;
    END LOOP;
END $$;

-- Do all that is due. Returns {"next": when the next thing is due, "now": the time here, "woken": ..., "freed": ...,
-- "opened": ...}. "is_all" is false if items are still due that were not left for the limit's sake.
CREATE OR REPLACE FUNCTION signoff.due(
    p_now double precision, p_lease_now double precision, p_limit integer, p_forget_seconds double precision,
    p_timed_out text
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    db_now constant double precision := extract(epoch FROM clock_timestamp());
    v_now constant double precision := coalesce(p_now, db_now);
    v_lease_now constant double precision := coalesce(p_lease_now, db_now);
    next_at double precision := signoff.next_due(v_now, v_lease_now, p_forget_seconds);
    woken jsonb := '[]';
    freed jsonb := '[]';
    opened jsonb := '[]';
    passed jsonb := '[]';
    ended jsonb := '[]';
    promises_done integer;
    timers_done integer;
    deadlines_done integer;
    unclaimed record;
    leases_done integer;
    tasks_done integer;
    rates_done integer;
    is_all boolean := true;
BEGIN
    IF next_at <= v_now THEN
        SELECT coalesce(jsonb_agg(jsonb_build_array(namespace, id)) FILTER (WHERE id IS NOT NULL), '[]'),
            count(*) FILTER (WHERE id IS NULL)
        INTO woken, promises_done
        FROM signoff.time_out_promises(v_now, p_limit);
        SELECT coalesce(jsonb_agg(jsonb_build_array(namespace, id)), '[]'), count(*) INTO freed, timers_done
        FROM signoff.wake_timers(v_now, p_limit);
        SELECT late.woken, late.ended, late.passed INTO passed, ended, deadlines_done
        FROM signoff.pass_deadlines(v_now, p_limit, p_timed_out) AS late;
        SELECT * INTO unclaimed FROM signoff.end_unclaimed(v_now, p_limit, p_timed_out);
        passed := passed || unclaimed.woken;
        ended := ended || unclaimed.ended;
        SELECT freed || coalesce(jsonb_agg(jsonb_build_array(namespace, id)), '[]'), count(*) INTO freed, leases_done
        FROM signoff.free_lost(v_now, v_lease_now, p_limit);
        SELECT coalesce(jsonb_agg(namespace), '[]'), count(*) INTO opened, rates_done
        FROM signoff.open_due(v_now, p_limit) AS namespace;
        tasks_done := signoff.free_tasks(v_now, v_lease_now, p_limit);
        DELETE FROM signoff.workers WHERE seen_at <= v_lease_now - p_forget_seconds;
        next_at := signoff.next_due(v_now, v_lease_now, p_forget_seconds);
        IF next_at <= v_now THEN  -- there are more than `p_limit`, or some were left
            is_all := NOT (
                promises_done < p_limit AND EXISTS (
                    SELECT FROM signoff.promises WHERE state = 'pending' AND due_at IS NOT NULL AND due_at <= v_now
                ) OR timers_done < p_limit AND EXISTS (
                    SELECT FROM signoff.runs WHERE wake_at IS NOT NULL AND wake_at <= v_now
                ) OR deadlines_done < p_limit AND EXISTS (
                    SELECT FROM signoff.runs
                    WHERE deadline_at IS NOT NULL AND NOT deadline_passed AND ended_at IS NULL AND deadline_at <= v_now
                ) OR unclaimed.passed < p_limit AND EXISTS (
                    SELECT FROM signoff.runs
                    WHERE deadline_at IS NOT NULL AND deadline_passed AND state = 'ready'
                        AND greatest(deadline_at, ready_at) <= v_now - signoff.grace_seconds()
                ) OR leases_done < p_limit AND EXISTS (
                    SELECT FROM signoff.runs WHERE worker_id IS NOT NULL AND lease_until <= v_lease_now
                ) OR tasks_done < p_limit AND EXISTS (
                    SELECT FROM signoff.tasks WHERE lease_until IS NOT NULL AND lease_until <= v_lease_now
                ) OR rates_done < p_limit AND EXISTS (
                    SELECT FROM signoff.groups WHERE opens_at IS NOT NULL AND opens_at <= v_now
                ) OR EXISTS (SELECT FROM signoff.workers WHERE seen_at <= v_lease_now - p_forget_seconds)
            );
        END IF;
    END IF;
    RETURN jsonb_build_object(
        'next', next_at, 'now', db_now, 'woken', woken || passed, 'freed', freed, 'opened', opened,
        'ended', ended, 'task_due', signoff.take_task_due(), 'is_all', is_all
    );
END $$;
CALL signoff.plan_by_index('signoff.due');

-- Do one item of a job. Returns {"woken": ..., "freed": ..., "ended": ..., "opened": ...}, each a list of run ids, or NULL
-- where another process has it locked, or it is not due any more.
CREATE OR REPLACE FUNCTION signoff.do_item(
    p_job text, p_namespace text, p_id text, p_now double precision, p_lease_now double precision,
    p_forget_seconds double precision
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
                RETURN NULL;
            END IF;
        END IF;
        PERFORM FROM signoff.promises
        WHERE shard = signoff.shard_of(p_id) AND namespace = p_namespace AND id = p_id AND settled_at IS NULL
            AND due_at <= p_now
        FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND OR NOT signoff.try_lock_tasks_of(p_namespace, p_id) THEN
            RETURN NULL;
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
            RETURN NULL;
        END IF;
        UPDATE signoff.runs SET state = 'ready', ready_at = p_now, wake_at = NULL
        WHERE id = p_id AND namespace = p_namespace
        RETURNING * INTO run;
        PERFORM signoff.line_up(run);
        RETURN jsonb_build_object('freed', jsonb_build_array(p_id));
    WHEN 'lease' THEN
        SELECT * INTO run FROM signoff.runs
        WHERE id = p_id AND namespace = p_namespace AND worker_id IS NOT NULL
            AND lease_until <= p_lease_now AND signoff.try_lock_slots(slots)
        FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN NULL;
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
    WHEN 'task' THEN
        PERFORM FROM signoff.tasks
        WHERE shard = signoff.shard_of(p_id) AND namespace = p_namespace AND id = p_id AND lease_until <= p_lease_now
        FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        PERFORM signoff.move_task(p_namespace, p_id, 'pending', p_now);
        RETURN '{}';
    WHEN 'rate' THEN
        UPDATE signoff.groups SET opens_at = NULL
        WHERE name = p_id AND namespace = p_namespace AND opens_at <= p_now;
        RETURN jsonb_build_object('opened', jsonb_build_array(p_id));
    WHEN 'worker' THEN
        DELETE FROM signoff.workers WHERE id = p_id AND seen_at <= p_lease_now - p_forget_seconds;
        RETURN '{}';
    END CASE;
END $$;

-- Do one item of a job. `touched` is as of signoff.do_item; `is_left` says whether another transaction has it locked.
CREATE OR REPLACE FUNCTION signoff.do_due_item(
    p_job text, p_namespace text, p_id text, p_now double precision, p_lease_now double precision,
    p_forget_seconds double precision, p_timed_out text, OUT touched jsonb, OUT is_left boolean
)
LANGUAGE plpgsql AS $$
BEGIN
    IF p_job = 'deadline' THEN
        SELECT CASE WHEN passed.woken IS NOT NULL THEN
            jsonb_build_object('all_woken', passed.woken, 'all_ended', passed.ended)
        END INTO touched
        FROM signoff.pass_deadline(p_namespace, p_id, p_now, p_timed_out) AS passed;
    ELSIF p_job = 'grace' THEN
        SELECT CASE WHEN passed.woken IS NOT NULL THEN
            jsonb_build_object('all_woken', passed.woken, 'all_ended', passed.ended)
        END INTO touched
        FROM signoff.end_unclaimed_run(p_namespace, p_id, p_now, p_timed_out) AS passed;
    ELSE
        touched := signoff.do_item(p_job, p_namespace, p_id, p_now, p_lease_now, p_forget_seconds);
    END IF;
    is_left := signoff.is_due(p_job, p_namespace, p_id, p_now, p_lease_now, p_forget_seconds);
    IF is_left AND touched IS NOT NULL THEN
        RAISE EXCEPTION 'the database has left its row as it was';
    END IF;
END $$;

-- Do items of a job: each in a subtransaction of its own, or in none.
CREATE OR REPLACE FUNCTION signoff.do_items(
    p_job text, p_namespaces text[], p_ids text[], p_limit integer, p_now double precision,
    p_lease_now double precision, p_forget_seconds double precision, p_timed_out text, p_alone boolean,
    INOUT p_done jsonb
)
LANGUAGE plpgsql AS $$
DECLARE
    item record;
    touched jsonb;
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
        touched := item.touched;
        p_done := p_done || jsonb_build_object(
            'woken', (p_done -> 'woken') || coalesce(touched -> 'all_woken', '[]') || (
                SELECT coalesce(jsonb_agg(jsonb_build_array(p_namespaces[place], id)), '[]')
                FROM jsonb_array_elements_text(coalesce(touched -> 'woken', '[]')) AS id
            ),
            'ended', (p_done -> 'ended') || coalesce(touched -> 'all_ended', '[]'),
            'freed', (p_done -> 'freed') || CASE
                WHEN touched ? 'freed' THEN jsonb_build_array(jsonb_build_array(p_namespaces[place], p_ids[place]))
                ELSE '[]'
            END,
            'opened', (p_done -> 'opened') || CASE
                WHEN touched ? 'opened' THEN jsonb_build_array(p_namespaces[place]) ELSE '[]'
            END
        );
    END LOOP;
END $$;

-- Do items of a job in one subtransaction, and one by one only if that fails.
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

-- As signoff.due, one by one, but for the items in `p_skipped`: {"promise": {name: true, ...}, "timer": ..., ...}. Returns
-- also {"failures": [[job, namespace, id, SQLSTATE, error], ...], "is_all": whether no more than `p_limit` were due}, and
-- "busy"; see signoff.do_items.
CREATE OR REPLACE FUNCTION signoff.due_each(
    p_now double precision, p_lease_now double precision, p_limit integer, p_forget_seconds double precision,
    p_timed_out text, p_skipped jsonb
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    db_now constant double precision := extract(epoch FROM clock_timestamp());
    v_now constant double precision := coalesce(p_now, db_now);
    v_lease_now constant double precision := coalesce(p_lease_now, db_now);
    v_skipped jsonb := '{
        "promise": {}, "timer": {}, "deadline": {}, "grace": {}, "lease": {}, "task": {}, "rate": {}, "worker": {}
    }'::jsonb || p_skipped;
    done jsonb := '{"woken": [], "freed": [], "ended": [], "opened": [], "failures": [], "busy": [], "is_all": true}';
    namespaces text[];
    ids text[];
BEGIN
    SELECT array_agg(namespace), array_agg(id) INTO namespaces, ids FROM (
        SELECT namespace, id FROM signoff.promises
        WHERE state = 'pending' AND due_at IS NOT NULL AND due_at <= v_now
            AND NOT (v_skipped -> 'promise') ? signoff.item_name(namespace, id)
        ORDER BY due_at LIMIT p_limit
    ) AS item;
    done := signoff.do_items(
        'promise', coalesce(namespaces, '{}'), coalesce(ids, '{}'), p_limit, v_now, v_lease_now, p_forget_seconds,
        NULL, done
    );
    SELECT array_agg(namespace), array_agg(id) INTO namespaces, ids FROM (
        SELECT namespace, id FROM signoff.runs
        WHERE wake_at IS NOT NULL AND wake_at <= v_now
            AND NOT (v_skipped -> 'timer') ? signoff.item_name(namespace, id)
        ORDER BY wake_at LIMIT p_limit
    ) AS item;
    done := signoff.do_items(
        'timer', coalesce(namespaces, '{}'), coalesce(ids, '{}'), p_limit, v_now, v_lease_now, p_forget_seconds,
        NULL, done
    );
    SELECT array_agg(namespace), array_agg(id) INTO namespaces, ids FROM (
        SELECT namespace, id FROM signoff.runs
        WHERE deadline_at IS NOT NULL AND NOT deadline_passed AND ended_at IS NULL AND deadline_at <= v_now
            AND NOT (v_skipped -> 'deadline') ? signoff.item_name(namespace, id)
        ORDER BY deadline_at LIMIT p_limit
    ) AS item;
    done := signoff.do_items(
        'deadline', coalesce(namespaces, '{}'), coalesce(ids, '{}'), p_limit, v_now, v_lease_now, p_forget_seconds,
        p_timed_out, done
    );
    SELECT array_agg(namespace), array_agg(id) INTO namespaces, ids FROM (
        SELECT namespace, id FROM signoff.runs
        WHERE deadline_at IS NOT NULL AND deadline_passed AND state = 'ready'
            AND greatest(deadline_at, ready_at) <= v_now - signoff.grace_seconds()
            AND NOT (v_skipped -> 'grace') ? signoff.item_name(namespace, id)
        ORDER BY greatest(deadline_at, ready_at) LIMIT p_limit
    ) AS item;
    done := signoff.do_items(
        'grace', coalesce(namespaces, '{}'), coalesce(ids, '{}'), p_limit, v_now, v_lease_now, p_forget_seconds,
        p_timed_out, done
    );
    SELECT array_agg(namespace), array_agg(id) INTO namespaces, ids FROM (
        SELECT namespace, id FROM signoff.runs
        WHERE worker_id IS NOT NULL AND lease_until <= v_lease_now
            AND NOT (v_skipped -> 'lease') ? signoff.item_name(namespace, id)
        ORDER BY lease_until LIMIT p_limit
    ) AS item;
    done := signoff.do_items(
        'lease', coalesce(namespaces, '{}'), coalesce(ids, '{}'), p_limit, v_now, v_lease_now, p_forget_seconds,
        NULL, done
    );
    SELECT array_agg(namespace), array_agg(id) INTO namespaces, ids FROM (
        SELECT namespace, id FROM signoff.tasks
        WHERE lease_until IS NOT NULL AND lease_until <= v_lease_now
            AND NOT (v_skipped -> 'task') ? signoff.item_name(namespace, id)
        ORDER BY lease_until LIMIT p_limit
    ) AS item;
    done := signoff.do_items(
        'task', coalesce(namespaces, '{}'), coalesce(ids, '{}'), p_limit, v_now, v_lease_now, p_forget_seconds,
        NULL, done
    );
    SELECT array_agg(namespace), array_agg(name) INTO namespaces, ids FROM (
        SELECT namespace, name FROM signoff.groups
        WHERE opens_at IS NOT NULL AND opens_at <= v_now
            AND NOT (v_skipped -> 'rate') ? signoff.item_name(namespace, name)
        ORDER BY opens_at LIMIT p_limit
    ) AS item;
    done := signoff.do_items(
        'rate', coalesce(namespaces, '{}'), coalesce(ids, '{}'), p_limit, v_now, v_lease_now, p_forget_seconds,
        NULL, done
    );
    SELECT array_agg(namespace), array_agg(id) INTO namespaces, ids FROM (
        SELECT namespace, id FROM signoff.workers
        WHERE seen_at <= v_lease_now - p_forget_seconds
            AND NOT (v_skipped -> 'worker') ? signoff.item_name(namespace, id)
        ORDER BY seen_at LIMIT p_limit
    ) AS item;
    done := signoff.do_items(
        'worker', coalesce(namespaces, '{}'), coalesce(ids, '{}'), p_limit, v_now, v_lease_now, p_forget_seconds,
        NULL, done
    );
    SELECT jsonb_object_agg(job, (v_skipped -> job) || (
        SELECT coalesce(jsonb_object_agg(signoff.item_name(failed ->> 1, failed ->> 2), true), '{}')
        FROM jsonb_array_elements((done -> 'failures') || (done -> 'busy')) AS failed WHERE failed ->> 0 = job
    )) INTO v_skipped
    FROM jsonb_object_keys(v_skipped) AS job;
    RETURN done || jsonb_build_object(
        'now', db_now, 'next', signoff.next_due_beside(v_now, v_lease_now, p_forget_seconds, v_skipped),
        'task_due', signoff.take_task_due()
    );
END $$;
CALL signoff.plan_by_index('signoff.due_each');
