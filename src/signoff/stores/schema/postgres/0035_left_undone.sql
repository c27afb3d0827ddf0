-- A row that a trigger leaves as it was, without an error, makes no periodic job go on without a pause: its item is set
-- aside. An item whose row another transaction has locked is left alone for a while.

-- Whether an item of a job of time is due; see signoff.due_each.
CREATE FUNCTION signoff.is_due(
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
    WHEN 'lease' THEN
        PERFORM FROM signoff.runs
        WHERE id = p_id AND namespace = p_namespace AND worker_id IS NOT NULL AND lease_until <= p_lease_now;
    WHEN 'rate' THEN
        PERFORM FROM signoff.groups WHERE name = p_id AND namespace = p_namespace AND opens_at <= p_now;
    WHEN 'worker' THEN
        PERFORM FROM signoff.workers WHERE id = p_id AND seen_at <= p_lease_now - p_forget_seconds;
    END CASE;
    RETURN FOUND;
END $$;
DROP FUNCTION signoff.do_items(text, text[], text[], integer, double precision, text, jsonb);
DROP FUNCTION signoff.do_item(text, text, text, double precision, text);

-- As in 0029_one_by_one.sql, but NULL where another process has it locked, or it is not due any more.
CREATE FUNCTION signoff.do_item(
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
        IF NOT FOUND THEN
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
    WHEN 'rate' THEN
        UPDATE signoff.groups SET opens_at = NULL
        WHERE name = p_id AND namespace = p_namespace AND opens_at <= p_now;
        RETURN jsonb_build_object('opened', jsonb_build_array(p_id));
    WHEN 'worker' THEN
        DELETE FROM signoff.workers WHERE id = p_id AND seen_at <= p_lease_now - p_forget_seconds;
        RETURN '{}';
    END CASE;
END $$;

-- As in 0029_one_by_one.sql, but `woken` is NULL where another process has what it needs locked.
CREATE OR REPLACE FUNCTION signoff.pass_deadline(
    p_namespace text, p_id text, p_now double precision, p_error text, OUT woken jsonb, OUT ended jsonb
)
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
    told text[];
BEGIN
    SELECT * INTO run FROM signoff.runs
    WHERE id = p_id AND namespace = p_namespace AND signoff.try_lock_slots(slots)
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND OR run.deadline_passed OR run.ended_at IS NOT NULL OR run.deadline_at > p_now THEN
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
        IF run.id IS NULL THEN
            RAISE EXCEPTION 'the database has left its row as it was';
        END IF;
        PERFORM signoff.note(run, 'failed', run.error, NULL, p_now);
        ended := jsonb_build_array(jsonb_build_array(run.namespace, run.id));
        told := signoff.finish(run, p_now);
    ELSE
        UPDATE signoff.runs SET deadline_passed = true WHERE id = run.id AND namespace = run.namespace;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the database has left its row as it was';
        END IF;
        told := signoff.leave(run.namespace, run.id, 'deadline', p_now);
    END IF;
    ended := coalesce(ended, '[]');
    woken := (SELECT coalesce(jsonb_agg(jsonb_build_array(run.namespace, id)), '[]') FROM unnest(told) AS id);
END $$;

DROP FUNCTION signoff.pass_deadlines(double precision, integer, text);

-- `passed` is how many.
CREATE FUNCTION signoff.pass_deadlines(
    p_now double precision, p_limit integer, p_error text, OUT woken jsonb, OUT ended jsonb,
    OUT passed integer
)
LANGUAGE plpgsql AS $$
DECLARE
    late record;
    told record;
BEGIN
    woken := '[]';
    ended := '[]';
    passed := 0;
    FOR late IN
        SELECT id, namespace FROM signoff.runs
        WHERE deadline_at IS NOT NULL AND NOT deadline_passed AND ended_at IS NULL AND deadline_at <= p_now
        ORDER BY deadline_at LIMIT p_limit
    LOOP
        SELECT * INTO told FROM signoff.pass_deadline(late.namespace, late.id, p_now, p_error);
        CONTINUE WHEN told.woken IS NULL;
        woken := woken || told.woken;
        ended := ended || told.ended;
        passed := passed + 1;
    END LOOP;
END $$;

-- As in 0018_origins.sql. Of each promise there is a row without an id, and one of each run that was woken.
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
        RETURN QUERY SELECT late.namespace, NULL::text;
        RETURN QUERY SELECT late.namespace, woken FROM unnest(signoff.tell_all(promise, p_now)) AS woken;
    END LOOP;
END $$;

-- As in 0029_one_by_one.sql. "busy" are the items that other transactions have locked: [[job, namespace, id], ...].
CREATE FUNCTION signoff.do_items(
    p_job text, p_namespaces text[], p_ids text[], p_limit integer, p_now double precision,
    p_lease_now double precision, p_forget_seconds double precision, p_timed_out text, INOUT p_done jsonb
)
LANGUAGE plpgsql AS $$
DECLARE
    told jsonb;
    is_left boolean;
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
                SELECT CASE WHEN passed.woken IS NOT NULL THEN
                    jsonb_build_object('all_woken', passed.woken, 'all_ended', passed.ended)
                END INTO told
                FROM signoff.pass_deadline(p_namespaces[place], p_ids[place], p_now, p_timed_out) AS passed;
            ELSE
                told := signoff.do_item(
                    p_job, p_namespaces[place], p_ids[place], p_now, p_lease_now, p_forget_seconds
                );
            END IF;
            is_left := signoff.is_due(
                p_job, p_namespaces[place], p_ids[place], p_now, p_lease_now, p_forget_seconds
            );
            IF is_left AND told IS NOT NULL THEN
                RAISE EXCEPTION 'the database has left its row as it was';
            END IF;
        EXCEPTION WHEN OTHERS THEN
            IF NOT signoff.is_of_row(SQLSTATE) THEN
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
        IF is_left THEN
            p_done := jsonb_set(p_done, '{busy}', (p_done -> 'busy') || jsonb_build_array(
                jsonb_build_array(p_job, p_namespaces[place], p_ids[place])
            ));
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

-- As in 0029_one_by_one.sql. Returns also "busy"; see signoff.do_items.
CREATE OR REPLACE FUNCTION signoff.due_each(
    p_now double precision, p_lease_now double precision, p_limit integer, p_forget_seconds double precision,
    p_timed_out text, p_skipped jsonb
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    db_now constant double precision := extract(epoch FROM clock_timestamp());
    v_now constant double precision := coalesce(p_now, db_now);
    v_lease_now constant double precision := coalesce(p_lease_now, db_now);
    v_skipped jsonb := '{"promise": {}, "timer": {}, "deadline": {}, "lease": {}, "rate": {}, "worker": {}}'::jsonb || p_skipped;
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
        WHERE worker_id IS NOT NULL AND lease_until <= v_lease_now
            AND NOT (v_skipped -> 'lease') ? signoff.item_name(namespace, id)
        ORDER BY lease_until LIMIT p_limit
    ) AS item;
    done := signoff.do_items(
        'lease', coalesce(namespaces, '{}'), coalesce(ids, '{}'), p_limit, v_now, v_lease_now, p_forget_seconds,
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
        'now', db_now, 'next', signoff.next_due_beside(v_now, v_lease_now, p_forget_seconds, v_skipped)
    );
END $$;
CALL signoff.plan_by_index('signoff.due_each');

-- As in 0024_suspension.sql. "is_all" is false if items are still due that were not left for the limit's sake.
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
    leases_done integer;
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
        SELECT told.woken, told.ended, told.passed INTO passed, ended, deadlines_done
        FROM signoff.pass_deadlines(v_now, p_limit, p_timed_out) AS told;
        SELECT freed || coalesce(jsonb_agg(jsonb_build_array(namespace, id)), '[]'), count(*) INTO freed, leases_done
        FROM signoff.free_lost(v_now, v_lease_now, p_limit);
        SELECT coalesce(jsonb_agg(namespace), '[]'), count(*) INTO opened, rates_done
        FROM signoff.open_due(v_now, p_limit) AS namespace;
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
                ) OR leases_done < p_limit AND EXISTS (
                    SELECT FROM signoff.runs WHERE worker_id IS NOT NULL AND lease_until <= v_lease_now
                ) OR rates_done < p_limit AND EXISTS (
                    SELECT FROM signoff.groups WHERE opens_at IS NOT NULL AND opens_at <= v_now
                ) OR EXISTS (SELECT FROM signoff.workers WHERE seen_at <= v_lease_now - p_forget_seconds)
            );
        END IF;
    END IF;
    RETURN jsonb_build_object(
        'next', next_at, 'now', db_now, 'woken', woken || passed, 'freed', freed, 'opened', opened,
        'ended', ended, 'is_all', is_all
    );
END $$;
CALL signoff.plan_by_index('signoff.due');

-- As in 0009_schedules.sql.
CREATE OR REPLACE FUNCTION signoff.fire_schedule(
    p_namespace text, p_id text, p_expected double precision, p_runs jsonb, p_next_at double precision,
    p_now double precision
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_now constant double precision := coalesce(p_now, extract(epoch FROM clock_timestamp()));
    new jsonb;
BEGIN
    UPDATE signoff.schedules SET next_at = p_next_at
    WHERE id = p_id AND namespace = p_namespace AND next_at = p_expected AND NOT is_paused;
    IF NOT FOUND THEN
        PERFORM FROM signoff.schedules
        WHERE id = p_id AND namespace = p_namespace AND next_at = p_expected AND NOT is_paused;
        IF FOUND THEN
            RAISE EXCEPTION 'the database has left its row as it was';
        END IF;
        RETURN false;
    END IF;
    FOR new IN SELECT value FROM jsonb_array_elements(p_runs) LOOP
        PERFORM signoff.create_row(p_namespace, new, NULL, v_now);
    END LOOP;
    IF new IS NOT NULL THEN
        UPDATE signoff.schedules SET last_at = v_now, last_run_id = p_runs #>> '{-1,id}'
        WHERE id = p_id AND namespace = p_namespace;
    END IF;
    RETURN true;
END $$;
CALL signoff.plan_by_index('signoff.fire_schedule');

-- As in 0010_people.sql.
CREATE OR REPLACE FUNCTION signoff.seal(p_namespace text, p_seq bigint, p_seals jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_end constant bigint := (SELECT seq FROM signoff.seals WHERE namespace = p_namespace ORDER BY seq DESC LIMIT 1);
    v_seq bigint := p_seq;
    v_shard text;
    seal jsonb;
BEGIN
    IF p_seq <> coalesce(v_end + 1, 0) THEN
        RETURN false;
    END IF;
    FOR seal IN SELECT value FROM jsonb_array_elements(p_seals) LOOP
        SELECT shard INTO STRICT v_shard FROM (
            SELECT shard, number FROM signoff.unsealed
            WHERE event_id = seal ->> 'event_id' AND namespace = p_namespace OFFSET 0
        ) AS waiting
        ORDER BY number LIMIT 1;
        INSERT INTO signoff.seals (namespace, seq, shard, event_id, hash)
        VALUES (p_namespace, v_seq, v_shard, seal ->> 'event_id', seal ->> 'hash');
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the database has left its row as it was';
        END IF;
        DELETE FROM signoff.unsealed
        WHERE shard = v_shard AND namespace = p_namespace AND event_id = seal ->> 'event_id';
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the database has left its row as it was';
        END IF;
        v_seq := v_seq + 1;
    END LOOP;
    RETURN true;
EXCEPTION
    WHEN no_data_found OR unique_violation THEN
        RETURN false;
END $$;
CALL signoff.plan_by_index('signoff.seal');

-- As in 0012_outbox.sql.
CREATE OR REPLACE FUNCTION signoff.expand(
    p_namespace text, p_channel text, p_expected bigint, p_seq bigint, p_deliveries jsonb, p_now double precision
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_now constant double precision := coalesce(p_now, extract(epoch FROM clock_timestamp()));
    new record;
    v_seq bigint;
BEGIN
    IF p_expected IS NULL THEN
        INSERT INTO signoff.channels (namespace, name, seq) VALUES (p_namespace, p_channel, p_seq)
        ON CONFLICT (namespace, name) DO NOTHING;
    ELSE
        UPDATE signoff.channels SET seq = p_seq
        WHERE namespace = p_namespace AND name = p_channel AND seq = p_expected;
    END IF;
    IF NOT FOUND THEN
        SELECT seq INTO v_seq FROM signoff.channels WHERE namespace = p_namespace AND name = p_channel;
        IF v_seq IS NOT DISTINCT FROM p_expected THEN
            RAISE EXCEPTION 'the database has left its row as it was';
        END IF;
        RETURN false;
    END IF;
    FOR new IN SELECT * FROM jsonb_to_recordset(p_deliveries) AS new (
        id text, recipient text, event_id text, seq bigint, kind text, question_id text, run_id text
    ) LOOP
        INSERT INTO signoff.deliveries (
            namespace, id, channel, recipient, event_id, seq, kind, question_id, run_id, state, created_at, due_at
        ) VALUES (
            p_namespace, new.id, p_channel, new.recipient, new.event_id, new.seq, new.kind, new.question_id, new.run_id,
            'pending', v_now, signoff.due_in_lane(p_namespace, p_channel, new.question_id, new.recipient, v_now)
        )
        ON CONFLICT (namespace, id) DO NOTHING;
    END LOOP;
    RETURN true;
END $$;
CALL signoff.plan_by_index('signoff.expand');

CREATE OR REPLACE FUNCTION signoff.claim_deliveries(
    p_namespace text, p_channel text, p_limit integer, p_lease_seconds double precision, p_now double precision
) RETURNS SETOF signoff.deliveries
LANGUAGE plpgsql AS $$
DECLARE
    v_now constant double precision := coalesce(p_now, extract(epoch FROM clock_timestamp()));
    v_ids constant text[] := ARRAY(
        SELECT id FROM signoff.deliveries
        WHERE namespace || '' = p_namespace AND channel = p_channel AND state = 'pending' AND due_at <= v_now
        ORDER BY due_at, number LIMIT p_limit
        FOR NO KEY UPDATE SKIP LOCKED
    );
    v_id text;
BEGIN
    FOREACH v_id IN ARRAY v_ids LOOP
        RETURN QUERY
            UPDATE signoff.deliveries SET attempts = attempts + 1, due_at = v_now + p_lease_seconds
            WHERE namespace = p_namespace AND id = v_id
            RETURNING *;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the database has left its row as it was';
        END IF;
    END LOOP;
END $$;
CALL signoff.plan_by_index('signoff.claim_deliveries');

CREATE OR REPLACE FUNCTION signoff.delete_deliveries(p_namespace text, p_before double precision, p_limit integer)
RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_ids constant text[] := ARRAY(
        SELECT id FROM signoff.deliveries
        WHERE namespace || '' = p_namespace AND ended_at < p_before ORDER BY ended_at, number LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    );
    v_id text;
    v_deleted integer := 0;
BEGIN
    FOREACH v_id IN ARRAY v_ids LOOP
        DELETE FROM signoff.deliveries WHERE namespace = p_namespace AND id = v_id;
        v_deleted := v_deleted + FOUND::integer;
    END LOOP;
    RETURN v_deleted;
END $$;
CALL signoff.plan_by_index('signoff.delete_deliveries');

-- As in 0011_tokens.sql.
CREATE OR REPLACE FUNCTION signoff.delete_tokens(p_namespace text, p_before double precision, p_limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_id text;
    v_deleted integer := 0;
BEGIN
    FOR v_id IN
        SELECT id FROM signoff.tokens
        WHERE namespace = p_namespace AND ended_at < p_before AND ended_at IS NOT NULL
        ORDER BY ended_at LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    LOOP
        DELETE FROM signoff.tokens WHERE namespace = p_namespace AND id = v_id;
        v_deleted := v_deleted + FOUND::integer;
    END LOOP;
    RETURN v_deleted;
END $$;
CALL signoff.plan_by_index('signoff.delete_tokens');

-- As in 0034_deferred_ends.sql. A journal that stays would be read as that of the next run of the id.
CREATE OR REPLACE FUNCTION signoff.delete_run(p_run signoff.runs) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE signoff.runs SET parent_id = NULL, parent_n = NULL
    WHERE parent_id = p_run.id AND namespace = p_run.namespace;
    DELETE FROM signoff.waiters
    USING signoff.promises AS promises
    WHERE promises.run_id = p_run.id AND promises.namespace = p_run.namespace
        AND waiters.shard = promises.shard AND waiters.namespace = promises.namespace
        AND waiters.target = 'promise' AND waiters.target_id = promises.id;
    DELETE FROM signoff.waiters
    WHERE shard = p_run.id AND namespace = p_run.namespace AND target = 'run' AND target_id = p_run.id;
    DELETE FROM signoff.waiters WHERE run_id = p_run.id AND namespace = p_run.namespace;
    DELETE FROM signoff.tokens
    USING signoff.promises AS promises
    WHERE promises.run_id = p_run.id AND promises.namespace = p_run.namespace
        AND tokens.question_id = promises.id AND tokens.namespace = promises.namespace
        AND tokens.kind = 'callback';
    DELETE FROM signoff.promises WHERE run_id = p_run.id AND namespace = p_run.namespace;
    DELETE FROM signoff.journal WHERE run_id = p_run.id AND namespace = p_run.namespace;
    DELETE FROM signoff.messages WHERE run_id = p_run.id AND namespace = p_run.namespace;
    DELETE FROM signoff.deferred WHERE id = p_run.id AND namespace = p_run.namespace AND kind <> 'turn';
    DELETE FROM signoff.requests WHERE run_id = p_run.id AND namespace = p_run.namespace;
    DELETE FROM signoff.runs WHERE id = p_run.id AND namespace = p_run.namespace;
    IF NOT FOUND OR EXISTS (SELECT FROM signoff.journal WHERE run_id = p_run.id AND namespace = p_run.namespace) THEN
        RAISE EXCEPTION 'the database has left its row as it was';
    END IF;
END $$;

-- As in 0023_requests.sql.
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
