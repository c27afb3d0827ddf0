-- What the holder of a run's lease writes, and what ends a run. Functions return the ids of the runs that were woken.

-- Clear up after a run that has ended, and tell whoever waits for it.
CREATE FUNCTION signoff.finish(p_run signoff.runs, p_now double precision) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    waiter record;
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
    FOR waiter IN
        SELECT run_id, n FROM signoff.waiters
        WHERE shard = p_run.id AND namespace = p_run.namespace AND target = 'run' AND target_id = p_run.id
        ORDER BY run_id, n
    LOOP
        woken := woken || signoff.tell_end(
            p_run.namespace, waiter.run_id, waiter.n, p_run.id, p_run.state, p_run.result, p_run.error, p_now
        );
    END LOOP;
    RETURN woken;
END $$;

-- Where a journal goes on.
CREATE FUNCTION signoff.next_seq(p_namespace text, p_run_id text) RETURNS integer
LANGUAGE plpgsql AS $$
BEGIN
    RETURN coalesce((
        SELECT seq + 1 FROM signoff.journal
        WHERE run_id = p_run_id AND namespace = p_namespace
        ORDER BY seq DESC LIMIT 1
    ), 0);
END $$;

-- Append an entry of the store's own, without a fence: the caller has the run's row locked.
CREATE FUNCTION signoff.note(
    p_run signoff.runs, p_kind text, p_error text, p_details text, p_now double precision
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.journal (run_id, namespace, seq, at, kind, error, details)
    VALUES (
        p_run.id, p_run.namespace, signoff.next_seq(p_run.namespace, p_run.id), p_now, p_kind, p_error, p_details
    );
END $$;

-- Ask a run to stop; end it if it never started or failed retryably.
CREATE FUNCTION signoff.cancel(
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
        END IF;
        SELECT * INTO run FROM signoff.runs WHERE id = p_run_id AND namespace = p_namespace;
        IF NOT FOUND THEN
            RETURN '{}';
        END IF;
    END IF;
    RETURN jsonb_build_object('run', to_jsonb(run), 'ended', ended, 'woken', woken);
END $$;

-- Make a run ready that failed retryably; the details of the journal's entry know this very call.
CREATE FUNCTION signoff.retry(p_namespace text, p_run_id text, p_details text, p_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
BEGIN
    SELECT * INTO run FROM signoff.runs WHERE id = p_run_id AND namespace = p_namespace FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN '{}';
    END IF;
    PERFORM FROM signoff.journal
    WHERE run_id = p_run_id AND namespace = p_namespace AND kind = 'retried' AND details = p_details;
    IF FOUND THEN
        RETURN jsonb_build_object('run', to_jsonb(run), 'retried', true);
    END IF;
    SELECT * INTO run FROM signoff.retry_row(p_namespace, p_run_id, p_now);
    IF FOUND THEN
        PERFORM signoff.note(run, 'retried', NULL, p_details, p_now);
        RETURN jsonb_build_object('run', to_jsonb(run), 'retried', true);
    END IF;
    SELECT * INTO run FROM signoff.runs WHERE id = p_run_id AND namespace = p_namespace;
    RETURN jsonb_build_object('run', to_jsonb(run));
END $$;

-- Create a child run, or let the parent join the run that has the id.
CREATE FUNCTION signoff.start_child(p_namespace text, p_parent_id text, p_new jsonb, p_now double precision)
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
    IF run.workflow <> p_new ->> 'workflow' OR run.arguments_digest <> p_new ->> 'arguments_digest' THEN
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

-- Cancel a child run, or let the parent leave a run that it had joined.
CREATE FUNCTION signoff.cancel_child(
    p_namespace text, p_parent_id text, p_run_id text, p_error text, p_now double precision
) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    owner text;
    cancelled jsonb;
BEGIN
    SELECT parent_id INTO owner FROM signoff.runs WHERE id = p_run_id AND namespace = p_namespace;
    IF NOT FOUND THEN
        RETURN '{}';
    END IF;
    IF owner = p_parent_id THEN
        cancelled := signoff.cancel(p_namespace, p_run_id, NULL, 'run:' || p_parent_id, p_error, p_now);
        RETURN ARRAY(SELECT jsonb_array_elements_text(cancelled -> 'woken'));
    END IF;
    DELETE FROM signoff.waiters
    WHERE shard = p_run_id AND namespace = p_namespace AND target = 'run' AND target_id = p_run_id
        AND run_id = p_parent_id;
    RETURN '{}';
END $$;

-- What entries look like on the way to the journal.
CREATE TYPE signoff.entry AS (
    seq integer, at double precision, kind text, n integer, call text, name text, value text, error text, details text
);

-- Whether these entries are the journal's already, word for word: a write whose reply was lost is repeated.
CREATE FUNCTION signoff.are_written(p_namespace text, p_run_id text, p_entries jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT count(*) > 0 AND bool_and(
            (found.at, found.kind, found.n, found.call, found.name, found.value, found.error, found.details)
            IS NOT DISTINCT FROM
            (new.at, new.kind, new.n, new.call, new.name, new.value, new.error, new.details)
        )
        FROM jsonb_populate_recordset(NULL::signoff.entry, p_entries) AS new
        LEFT JOIN signoff.journal AS found
            ON found.run_id = p_run_id AND found.namespace = p_namespace AND found.seq = new.seq
    );
END $$;

-- Pause a run, if that is asked for.
CREATE FUNCTION signoff.pause(p_namespace text, p_run_id text, p_epoch integer, p_pause jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
    IF p_pause IS NULL THEN
        RETURN '{}';
    END IF;
    RETURN jsonb_build_object('paused', signoff.pause_row(
        p_namespace, p_run_id, p_epoch, (p_pause ->> 'wakes')::integer, (p_pause ->> 'wake_at')::double precision
    ));
END $$;

-- One fenced write: the batch, then the pause or the end of the run.
-- The entries follow one another; returns {"lost": true}, {"next": seq} if the journal goes on elsewhere, or what was
-- done.
CREATE FUNCTION signoff.write(p_namespace text, p_write jsonb, p_now double precision) RETURNS jsonb
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
        FOR item IN SELECT value FROM jsonb_array_elements(p_write -> 'cancels') LOOP
            woken := woken || signoff.cancel_child(
                p_namespace, v_run_id, item ->> 'id', item ->> 'error', p_now
            );
        END LOOP;
    END IF;
    IF p_write ? 'first_seq' THEN
        UPDATE signoff.runs SET first_seq = (p_write ->> 'first_seq')::integer
        WHERE id = v_run_id AND namespace = p_namespace;
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
