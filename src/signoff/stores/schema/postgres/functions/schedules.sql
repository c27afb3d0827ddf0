-- Schedules. When they fire is computed above the store; that each time fires once is decided here.

-- Move a schedule on from the time that is expected, and create its runs. Returns whether nobody else did.
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
