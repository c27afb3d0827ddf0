-- An entry alone, as in 0005_batches.sql: what must be there before it is looked up by its key, for two thirds of what it
-- costs to look for the last one. Where there is another of its number, signoff.write says whether it is the same.

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
