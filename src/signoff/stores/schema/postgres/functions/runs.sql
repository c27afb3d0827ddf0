-- Operations on one run: its end and all that follows from it, and what operators do. Functions return the ids of the runs
-- that were woken. What operators do returns the run, and `done` if it was done by this call or by the same one before;
-- `event` is what is recorded of it.
--
-- What follows from one change is done in one subtransaction, and one by one only if that fails. A transaction with more
-- than 64 subtransactions slows all others: Postgres looks theirs up page by page.

-- What a worker gets to know of a run, in the order of RUN_COLUMNS in stores/postgres/rows.py.
CREATE OR REPLACE FUNCTION signoff.run_values(p_run signoff.runs) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_array(
        (p_run).namespace, (p_run).id, (p_run).workflow, (p_run).group_name, (p_run).arguments, (p_run).state,
        (p_run).created_at, (p_run).parent_id, (p_run).parent_n, (p_run).deadline_at, (p_run).ended_at,
        (p_run).result, (p_run).error, (p_run).retryable, (p_run).epoch, (p_run).wakes, (p_run).wake_at,
        (p_run).worker_id, (p_run).lease_until, (p_run).first_seq, (p_run).priority, (p_run).start_at,
        (p_run).concurrency_key, (p_run).concurrency_limit, (p_run).traceparent, (p_run).started_by, (p_run).session_id, (p_run).position,
        (p_run).takeovers, (p_run).suspended_at, (p_run).suspended_by, (p_run).suspended_reason
    )
$$;

CREATE OR REPLACE FUNCTION signoff.count_runs(p_group text, p_namespace text, p_state text, p_limit integer) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT count(*) FROM (
            SELECT FROM signoff.runs
            WHERE group_name = p_group AND namespace = p_namespace AND state = p_state
            LIMIT p_limit
        ) AS counted
    );
END $$;

-- Where a journal goes on.
CREATE OR REPLACE FUNCTION signoff.next_seq(p_namespace text, p_run_id text) RETURNS integer
LANGUAGE plpgsql AS $$
BEGIN
    RETURN coalesce((
        SELECT seq + 1 FROM signoff.journal
        WHERE run_id = p_run_id AND namespace = p_namespace
        ORDER BY seq DESC LIMIT 1
    ), 0);
END $$;

-- Append an entry of the store's own, without a fence: the caller has the run's row locked.
CREATE OR REPLACE FUNCTION signoff.note(
    p_run signoff.runs, p_kind text, p_error text, p_details text, p_now double precision
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.journal (run_id, namespace, seq, at, kind, error, details)
    VALUES (
        p_run.id, p_run.namespace, signoff.next_seq(p_run.namespace, p_run.id), p_now, p_kind, p_error, p_details
    );
END $$;

-- Clear up after a run that has ended, and tell whoever waits for it.
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

-- Ask a run to stop; end it if it never started or failed retryably.
CREATE OR REPLACE FUNCTION signoff.cancel(
    p_namespace text, p_run_id text, p_reason text, p_by text, p_error text, p_now double precision
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
    woken text[] := '{}';
    ended boolean;
BEGIN
    SELECT * INTO run FROM signoff.cancel_row(p_namespace, p_run_id, p_error, p_now);
    ended := FOUND;
    IF ended THEN
        PERFORM signoff.note(run, 'cancelled', p_error, NULL, p_now);
        woken := signoff.finish(run, p_now);
    ELSE
        UPDATE signoff.runs SET cancel_asked = true
        WHERE id = p_run_id AND namespace = p_namespace AND NOT cancel_asked AND ended_at IS NULL;
        IF FOUND THEN
            woken := signoff.leave(
                p_namespace, p_run_id, 'cancel', p_now, NULL, NULL, NULL, NULL, NULL, p_by, p_reason
            );
        ELSIF EXISTS (
            SELECT FROM signoff.runs
            WHERE id = p_run_id AND namespace = p_namespace AND NOT cancel_asked AND ended_at IS NULL
        ) THEN
            RAISE EXCEPTION 'the database has left its row as it was';
        END IF;
        SELECT * INTO run FROM signoff.runs WHERE id = p_run_id AND namespace = p_namespace;
        IF NOT FOUND THEN
            RETURN '{}';
        END IF;
    END IF;
    RETURN jsonb_build_object('run', to_jsonb(run), 'ended', ended, 'woken', woken);
END $$;

-- Have a run wait for an operator.
CREATE OR REPLACE FUNCTION signoff.suspend(p_op jsonb, p_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_run_id constant text := p_op ->> 'run_id';
    v_epoch constant integer := (p_op ->> 'epoch')::integer;
    run signoff.runs;
    woken text[] := '{}';
BEGIN
    SELECT * INTO run FROM signoff.runs WHERE id = v_run_id AND namespace = v_namespace FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN '{}';
    END IF;
    IF v_epoch IS NOT NULL AND (run.epoch <> v_epoch OR run.worker_id IS NULL) THEN
        RETURN jsonb_build_object(
            'run', to_jsonb(run), CASE WHEN run.epoch = v_epoch AND run.suspended_at IS NOT NULL THEN 'done' ELSE 'lost' END,
            true
        );
    END IF;
    PERFORM FROM signoff.suspend_row(
        v_namespace, v_run_id, p_op #>> '{event,by}', p_op ->> 'reason', p_now
    );
    IF FOUND THEN
        IF v_epoch IS NOT NULL THEN
            PERFORM signoff.pause_row(v_namespace, v_run_id, v_epoch, run.wakes, NULL);
        ELSIF run.worker_id IS NOT NULL THEN
            woken := signoff.leave(
                v_namespace, v_run_id, 'suspend', p_now, p_by => p_op #>> '{event,by}', p_note => p_op ->> 'reason'
            );
        END IF;
        PERFORM signoff.record_one(v_namespace, p_op -> 'event', p_now);
    END IF;
    SELECT * INTO run FROM signoff.runs WHERE id = v_run_id AND namespace = v_namespace;
    RETURN jsonb_build_object('run', to_jsonb(run), 'done', run.ended_at IS NULL, 'woken', woken);
END $$;

-- Have a suspended run go on.
CREATE OR REPLACE FUNCTION signoff.resume(p_op jsonb, p_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_run_id constant text := p_op ->> 'run_id';
    run signoff.runs;
BEGIN
    PERFORM FROM signoff.runs WHERE id = v_run_id AND namespace = v_namespace FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN '{}';
    END IF;
    PERFORM FROM signoff.resume_row(v_namespace, v_run_id, p_now);
    IF FOUND THEN
        PERFORM signoff.record_one(v_namespace, p_op -> 'event', p_now);
    END IF;
    SELECT * INTO run FROM signoff.runs WHERE id = v_run_id AND namespace = v_namespace;
    RETURN jsonb_build_object('run', to_jsonb(run), 'done', run.ended_at IS NULL);
END $$;

-- End a run at once, without its code.
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

-- The JSON of an error about a run, made of one about the run '<run>'.
CREATE OR REPLACE FUNCTION signoff.error_for(p_template text, p_run_id text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    quoted constant text := to_jsonb(p_run_id)::text;
BEGIN
    RETURN replace(p_template, '<run>', substring(quoted FROM 2 FOR length(quoted) - 2));
END $$;

-- Make a failed run ready, or resume a suspended one. One that failed for good is retried if it failed in `epoch`.
CREATE OR REPLACE FUNCTION signoff.retry(p_op jsonb, p_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_run_id constant text := p_op ->> 'run_id';
    run signoff.runs;
    promise signoff.promises;
    child signoff.runs;
    kept boolean;
    woken text[] := '{}';
BEGIN
    SELECT * INTO run FROM signoff.runs WHERE id = v_run_id AND namespace = v_namespace FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN '{}';
    END IF;
    PERFORM FROM signoff.journal
    WHERE run_id = v_run_id AND namespace = v_namespace AND kind = 'retried'
        AND (details::jsonb) ->> 'token' = p_op ->> 'token';
    IF FOUND OR signoff.is_recorded(v_namespace, p_op -> 'event') THEN
        RETURN jsonb_build_object('run', to_jsonb(run), 'done', true);
    END IF;
    IF run.suspended_at IS NOT NULL THEN
        RETURN signoff.resume(p_op, p_now);
    END IF;
    kept := run.retryable;
    IF run.state <> 'failed' OR NOT kept AND run.epoch IS DISTINCT FROM (p_op ->> 'epoch')::integer THEN
        RETURN jsonb_build_object('run', to_jsonb(run));
    END IF;
    IF NOT kept AND run.session_id IS NOT NULL
        AND signoff.active_run(v_namespace, run.session_id) IS NOT NULL THEN
        RETURN jsonb_build_object('run', to_jsonb(run), 'busy', true);
    END IF;
    SELECT * INTO run FROM signoff.retry_row(v_namespace, v_run_id, p_now);
    PERFORM signoff.note(run, 'retried', NULL, p_op ->> CASE WHEN kept THEN 'kept' ELSE 'dropped' END, p_now);
    IF kept THEN
        PERFORM signoff.record_one(v_namespace, p_op -> 'event', p_now);
        RETURN jsonb_build_object('run', to_jsonb(run), 'done', true);
    END IF;
    FOR promise IN
        SELECT DISTINCT ON (n) * FROM signoff.promises
        WHERE run_id = v_run_id AND namespace = v_namespace AND settled_at IS NOT NULL
            AND n IN (SELECT value::integer FROM jsonb_array_elements_text(p_op -> 'open'))
        ORDER BY n, number DESC
    LOOP
        woken := woken || signoff.tell(promise, v_run_id, promise.n, p_now);
    END LOOP;
    FOR child IN
        SELECT * FROM signoff.runs
        WHERE parent_id = v_run_id AND namespace = v_namespace AND ended_at IS NOT NULL AND NOT retryable
            AND parent_n IN (SELECT value::integer FROM jsonb_array_elements_text(p_op -> 'open'))
        ORDER BY parent_n
    LOOP
        woken := woken || signoff.tell_end(
            v_namespace, v_run_id, child.parent_n, child.id, child.state, child.result, child.error, p_now
        );
    END LOOP;
    PERFORM signoff.record_one(v_namespace, p_op -> 'event', p_now);
    SELECT * INTO run FROM signoff.runs WHERE id = v_run_id AND namespace = v_namespace;
    RETURN jsonb_build_object('run', to_jsonb(run), 'done', true, 'woken', woken);
END $$;
