-- A run that was claimed, and the messages that wait for it. If these have more than `p_most` bytes none of them is read
-- here, and the run's counter says that not all were seen: the worker reads them page by page.
CREATE FUNCTION signoff.claimed(p_run jsonb, p_most integer) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_run ->> 0;
    v_id constant text := p_run ->> 1;
BEGIN
    IF p_most < (  -- without reading them
        SELECT sum(coalesce(octet_length(value), octet_length(error), octet_length(note))) FROM signoff.messages
        WHERE run_id = v_id AND namespace = v_namespace
    ) THEN
        RETURN jsonb_build_array(jsonb_set(p_run, '{15}', to_jsonb((p_run ->> 15)::integer - 1)), NULL);
    END IF;
    RETURN jsonb_build_array(p_run, (
        SELECT jsonb_agg(to_jsonb(messages) ORDER BY id) FROM signoff.messages
        WHERE run_id = v_id AND namespace = v_namespace
    ));
END $$;

-- As before, but for these: 4 MiB for all runs of a claim, and 256 KiB for each.
DO $$
DECLARE
    v_function regproc;
    before text;
    after text;
BEGIN
    FOREACH v_function IN ARRAY ARRAY['signoff.claim', 'signoff.claim_each']::regproc[] LOOP
        before := pg_get_functiondef(v_function);
        after := regexp_replace(
            before,
            'jsonb_build_array\(signoff\.run_values\(run\), CASE WHEN wakes > 0 THEN \(\s+'
            'SELECT jsonb_agg\(to_jsonb\(messages\) ORDER BY id\) FROM signoff\.messages\s+'
            'WHERE run_id = run\.id AND namespace = run\.namespace\s+\) END\)',
            'CASE WHEN wakes = 0 THEN jsonb_build_array(signoff.run_values(run), NULL) ELSE signoff.claimed('
            'signoff.run_values(run), greatest(4194304 / greatest((p_op ->> ''limit'')::integer, 1), 262144)) END',
            'g'
        );
        IF after LIKE '%jsonb_agg(to_jsonb(messages)%' THEN
            RAISE 'signoff: function % is not the one that was expected', v_function;
        END IF;
        EXECUTE after;
    END LOOP;
END $$;
