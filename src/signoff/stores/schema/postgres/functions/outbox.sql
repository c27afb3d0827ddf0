-- Notifications. Each transaction that makes deliveries or ends one holds the row of the channel, the first alone and the
-- others together: so no delivery is left to wait for an earlier one that ends meanwhile.

-- When a delivery is due that is put at the end of its lane.
CREATE OR REPLACE FUNCTION signoff.due_in_lane(
    p_namespace text, p_channel text, p_question_id text, p_recipient text, p_now double precision
) RETURNS double precision
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM signoff.deliveries
    WHERE namespace = p_namespace AND channel = p_channel AND question_id = p_question_id AND recipient = p_recipient
        AND ended_at IS NULL
    LIMIT 1;
    RETURN CASE WHEN FOUND THEN NULL ELSE p_now END;
END $$;
CALL signoff.plan_by_index('signoff.due_in_lane');

-- Move a channel on and create deliveries. Returns false, with nothing done, if it is elsewhere.
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

-- Take due deliveries of a channel. Whoever comes at the same time gets others.
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

-- When the next delivery of a channel is due that is none of these.
CREATE OR REPLACE FUNCTION signoff.next_delivery(p_namespace text, p_channel text, p_ids text[]) RETURNS double precision
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT due_at FROM signoff.deliveries
        WHERE namespace || '' = p_namespace AND channel = p_channel AND state = 'pending' AND due_at IS NOT NULL
            AND id <> ALL(p_ids)
        ORDER BY due_at LIMIT 1
    );
END $$;
CALL signoff.plan_by_index('signoff.next_delivery');

-- Delete deliveries that ended before then. Returns how many.
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

-- Note what came of an attempt, unless somebody else took the delivery since; the next one of its lane may go then.
CREATE OR REPLACE FUNCTION signoff.finish_delivery(
    p_namespace text, p_id text, p_attempt integer, p_state text, p_due_at double precision, p_error text,
    p_now double precision
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_now constant double precision := coalesce(p_now, extract(epoch FROM clock_timestamp()));
    ended signoff.deliveries;
BEGIN
    IF p_state = 'pending' THEN
        UPDATE signoff.deliveries SET due_at = p_due_at, error = p_error
        WHERE namespace = p_namespace AND id = p_id AND state = 'pending' AND attempts = p_attempt;
        RETURN;
    END IF;
    PERFORM FROM signoff.channels
    WHERE namespace = p_namespace
        AND name = (SELECT channel FROM signoff.deliveries WHERE namespace = p_namespace AND id = p_id)
    FOR SHARE;
    UPDATE signoff.deliveries SET state = p_state, due_at = NULL, ended_at = v_now, error = p_error
    WHERE namespace = p_namespace AND id = p_id AND state = 'pending' AND attempts = p_attempt
    RETURNING * INTO ended;
    IF ended.id IS NULL THEN
        RETURN;
    END IF;
    UPDATE signoff.deliveries SET due_at = v_now
    WHERE namespace = p_namespace AND id = (
        SELECT id FROM signoff.deliveries
        WHERE namespace = p_namespace AND channel = ended.channel AND question_id = ended.question_id
            AND recipient = ended.recipient AND ended_at IS NULL
        ORDER BY number LIMIT 1
    );
END $$;
CALL signoff.plan_by_index('signoff.finish_delivery');

-- Put a delivery that has ended at the end of its lane.
CREATE OR REPLACE FUNCTION signoff.redeliver(p_namespace text, p_id text, p_now double precision)
RETURNS SETOF signoff.deliveries
LANGUAGE plpgsql AS $$
DECLARE
    v_now constant double precision := coalesce(p_now, extract(epoch FROM clock_timestamp()));
BEGIN
    PERFORM FROM signoff.channels
    WHERE namespace = p_namespace
        AND name = (SELECT channel FROM signoff.deliveries WHERE namespace = p_namespace AND id = p_id)
    FOR UPDATE;
    UPDATE signoff.deliveries
    SET number = nextval('signoff.delivery_numbers'), state = 'pending', created_at = v_now, ended_at = NULL,
        error = NULL, due_at = signoff.due_in_lane(namespace, channel, question_id, recipient, v_now)
    WHERE namespace = p_namespace AND id = p_id AND state <> 'pending';
    RETURN QUERY SELECT * FROM signoff.deliveries WHERE namespace = p_namespace AND id = p_id;
END $$;
CALL signoff.plan_by_index('signoff.redeliver');

-- Deliveries, newest first, each by the index that has what is asked for.
CREATE OR REPLACE FUNCTION signoff.list_deliveries(
    p_namespace text, p_state text, p_channel text, p_question_id text, p_before bigint, p_limit integer
) RETURNS SETOF signoff.deliveries
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_question_id IS NOT NULL THEN
        RETURN QUERY
            SELECT * FROM signoff.deliveries
            WHERE namespace = p_namespace AND question_id = p_question_id AND number < p_before
                AND (p_state IS NULL OR state = p_state) AND (p_channel IS NULL OR channel = p_channel)
            ORDER BY number DESC LIMIT p_limit;
    ELSIF p_state IS NOT NULL AND p_channel IS NOT NULL THEN
        RETURN QUERY
            SELECT * FROM signoff.deliveries
            WHERE namespace = p_namespace AND channel || '' = p_channel AND state || '' = p_state AND number < p_before
            ORDER BY number DESC LIMIT p_limit;
    ELSIF p_state IS NOT NULL THEN
        RETURN QUERY
            SELECT * FROM signoff.deliveries
            WHERE namespace = p_namespace AND state || '' = p_state AND number < p_before
            ORDER BY number DESC LIMIT p_limit;
    ELSIF p_channel IS NOT NULL THEN
        RETURN QUERY
            SELECT * FROM signoff.deliveries
            WHERE namespace = p_namespace AND channel || '' = p_channel AND number < p_before
            ORDER BY number DESC LIMIT p_limit;
    ELSE
        RETURN QUERY
            SELECT * FROM signoff.deliveries
            WHERE namespace || '' = p_namespace AND number < p_before
            ORDER BY number DESC LIMIT p_limit;
    END IF;
END $$;
CALL signoff.plan_by_index('signoff.list_deliveries');
