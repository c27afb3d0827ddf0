-- What comes for a run is not lost where a trigger, or a policy of row-level security, leaves its row as it was without an
-- error: the change fails, or follows later.

-- As in 0024_suspension.sql.
CREATE OR REPLACE FUNCTION signoff.wake_row(p_namespace text, p_run_id text, p_now double precision) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_wakes integer;
    v_state text;
    v_slots text;
    v_blocked boolean;
    run signoff.runs;
BEGIN
    UPDATE signoff.runs
    SET wakes = wakes + 1,
        state = CASE WHEN state = 'paused' AND epoch > 0 AND suspended_at IS NULL THEN 'ready' ELSE state END,
        ready_at = CASE WHEN state = 'paused' AND epoch > 0 AND suspended_at IS NULL THEN p_now ELSE ready_at END,
        wake_at = CASE WHEN epoch > 0 THEN NULL ELSE wake_at END
    WHERE id = p_run_id AND namespace = p_namespace AND (ended_at IS NULL OR retryable)
    RETURNING wakes, state, slots, blocked INTO v_wakes, v_state, v_slots, v_blocked;
    IF NOT FOUND AND EXISTS (
        SELECT FROM signoff.runs
        WHERE id = p_run_id AND namespace = p_namespace AND (ended_at IS NULL OR retryable)
    ) THEN
        RAISE EXCEPTION 'the database has left its row as it was';
    END IF;
    IF v_slots IS NOT NULL AND NOT v_blocked THEN
        SELECT * INTO run FROM signoff.runs WHERE id = p_run_id AND namespace = p_namespace;
        v_blocked := signoff.line_up(run);
    END IF;
    IF v_state = 'ready' AND NOT v_blocked THEN
        PERFORM signoff.tell_workers();
    END IF;
    RETURN v_wakes;
END $$;

-- As in 0004_writes.sql.
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
