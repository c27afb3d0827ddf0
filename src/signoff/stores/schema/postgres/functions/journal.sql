-- What the holder of a run's lease writes. Functions return the ids of the runs that were woken.

-- Append an entry to a journal behind the fence of its epoch. Returns {} if it fits, else a list with what signoff.write
-- says of it. The run is locked before the journal is looked at: a later statement sees what was committed meanwhile.
--
-- What must be there before it is looked up by its key, for two thirds of what it costs to look for the last one. Where
-- there is another entry of its number, signoff.write says whether it is the same.
CREATE OR REPLACE FUNCTION signoff.append_entry(
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
        WHERE p_seq = 0 OR EXISTS (
            SELECT FROM signoff.journal
            WHERE run_id = p_run_id AND namespace = p_namespace AND seq = p_seq - 1
        )
        ON CONFLICT (run_id, namespace, seq) DO NOTHING;
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
CREATE OR REPLACE FUNCTION signoff.append(p_runs jsonb, p_entries jsonb) RETURNS jsonb
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

-- Whether these entries are the journal's already, word for word: a write whose reply was lost is repeated.
CREATE OR REPLACE FUNCTION signoff.are_written(p_namespace text, p_run_id text, p_entries jsonb) RETURNS boolean
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
CREATE OR REPLACE FUNCTION signoff.pause(p_namespace text, p_run_id text, p_epoch integer, p_pause jsonb) RETURNS jsonb
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
