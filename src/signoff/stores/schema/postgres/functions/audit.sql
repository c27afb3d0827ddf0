-- The audit trail, and the chain of seals of each namespace.

-- Record an event of the store's own.
CREATE OR REPLACE FUNCTION signoff.record_state(
    p_question signoff.promises, p_kind text, p_at double precision, p_details json
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.audit (shard, namespace, id, at, kind, question_id, run_id, by, details, origin)
    VALUES (
        p_question.shard, p_question.namespace, replace(gen_random_uuid()::text, '-', ''), p_at, p_kind,
        p_question.id, p_question.run_id, p_question.settled_by, p_details::text, p_question.origin
    );
END $$;

-- Record what is not recorded yet.
CREATE OR REPLACE FUNCTION signoff.record(p_namespace text, p_events jsonb, p_now double precision) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.audit (shard, namespace, id, at, kind, question_id, run_id, by, details, origin)
    SELECT signoff.shard_of(question_id), p_namespace, id, p_now, kind, question_id, run_id, by, details, origin
    FROM jsonb_to_recordset(p_events) AS new (
        id text, kind text, question_id text, run_id text, by text, details text, origin text
    )
    ON CONFLICT (shard, namespace, id) DO NOTHING;
END $$;

-- Record one event of an operator's.
CREATE OR REPLACE FUNCTION signoff.record_one(p_namespace text, p_event jsonb, p_now double precision) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_event IS NOT NULL AND p_event <> 'null' THEN
        PERFORM signoff.record(p_namespace, jsonb_build_array(p_event), p_now);
    END IF;
END $$;

-- Audit events in the order in which they were recorded: of a question, of a run, or all.
CREATE OR REPLACE FUNCTION signoff.recorded(
    p_namespace text, p_question_id text, p_run_id text, p_after bigint, p_limit integer
) RETURNS SETOF signoff.audit
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_question_id IS NOT NULL THEN
        RETURN QUERY
            SELECT * FROM signoff.audit
            WHERE shard = signoff.shard_of(p_question_id) AND namespace = p_namespace AND question_id = p_question_id
                AND (p_run_id IS NULL OR run_id = p_run_id) AND number > p_after
            ORDER BY number LIMIT p_limit;
    ELSIF p_run_id IS NOT NULL THEN
        RETURN QUERY
            SELECT * FROM signoff.audit
            WHERE run_id = p_run_id AND namespace = p_namespace AND number > p_after
            ORDER BY number LIMIT p_limit;
    ELSE
        RETURN QUERY
            SELECT * FROM signoff.audit
            WHERE namespace || '' = p_namespace AND number > p_after
            ORDER BY number LIMIT p_limit;
    END IF;
END $$;
CALL signoff.plan_by_index('signoff.recorded');

-- Whether this very call has been done before.
CREATE OR REPLACE FUNCTION signoff.is_recorded(p_namespace text, p_event jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM signoff.audit
        WHERE shard = signoff.shard_of(p_event ->> 'question_id') AND namespace = p_namespace AND id = p_event ->> 'id'
    );
END $$;

-- Add to the end of a namespace's chain: {"event_id", "hash"} of each seal, from `p_seq` on. Returns false, with nothing
-- done, if the chain ends elsewhere or an event does not wait for its seal. Who comes second at the first seal waits for
-- who came first.
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

-- The oldest events that wait for their seals, of all namespaces but some. One that was removed meanwhile fills no page.
CREATE OR REPLACE FUNCTION signoff.waiting_for_seals(p_besides text[], p_limit integer) RETURNS SETOF signoff.audit
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
