-- What steps say while they run, for whoever reads along. It may be lost, with the server's crash for one.

CREATE UNLOGGED TABLE signoff.live (
    run_id text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    epoch integer NOT NULL,
    seq bigint NOT NULL,
    n integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    attempt integer NOT NULL,
    position bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (run_id, namespace, epoch, seq)
);

-- Keep what was said under leases that hold. Returns the runs that it is of.
CREATE FUNCTION signoff.publish(
    p_namespace text, p_run_ids text[], p_epochs integer[], p_seqs bigint[], p_ns integer[], p_names text[],
    p_attempts integer[], p_positions bigint[], p_kinds text[], p_texts text[], p_kept bigint
) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    held record;
BEGIN
    FOR held IN
        SELECT run.id, run.epoch
        FROM (
            SELECT DISTINCT run_id COLLATE "C" AS run_id, epoch
            FROM unnest(p_run_ids, p_epochs) AS said (run_id, epoch)
            ORDER BY run_id, epoch  -- in which all lock runs
        ) AS said
        CROSS JOIN LATERAL (
            SELECT id, epoch FROM signoff.runs
            WHERE id = said.run_id AND namespace = p_namespace AND epoch = said.epoch AND state = 'running'
            FOR SHARE
        ) AS run
    LOOP
        DELETE FROM signoff.live
        WHERE run_id = held.id AND namespace = p_namespace AND live.epoch < held.epoch;
        INSERT INTO signoff.live (run_id, namespace, epoch, seq, n, name, attempt, position, kind, text)
        SELECT held.id, p_namespace, held.epoch, new.seq, new.n, new.name, new.attempt, new.position, new.kind, new.text
        FROM unnest(
            p_run_ids, p_epochs, p_seqs, p_ns, p_names, p_attempts, p_positions, p_kinds, p_texts
        ) AS new (run_id, epoch, seq, n, name, attempt, position, kind, text)
        WHERE new.run_id = held.id AND new.epoch = held.epoch
        ON CONFLICT (run_id, namespace, epoch, seq) DO NOTHING;
        DELETE FROM signoff.live
        USING (
            SELECT new.n, new.attempt, max(new.position) - p_kept AS farthest
            FROM unnest(p_run_ids, p_epochs, p_ns, p_attempts, p_positions)
                AS new (run_id, epoch, n, attempt, position)
            WHERE new.run_id = held.id AND new.epoch = held.epoch
            GROUP BY new.n, new.attempt
        ) AS newest
        WHERE live.run_id = held.id AND live.namespace = p_namespace AND live.epoch = held.epoch
            AND newest.farthest > 0
            AND live.n = newest.n AND live.attempt = newest.attempt AND live.position < newest.farthest;
        RETURN NEXT held.id;
    END LOOP;
END $$;
CALL signoff.plan_by_index('signoff.publish');

-- As in 0004_writes.sql, with the end of live text.

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
