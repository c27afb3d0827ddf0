-- Deleting runs that ended long ago, with everything that is theirs.

CREATE FUNCTION signoff.delete_run(p_run signoff.runs) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE signoff.runs SET parent_id = NULL, parent_n = NULL
    WHERE parent_id = p_run.id AND namespace = p_run.namespace;
    DELETE FROM signoff.waiters
    USING signoff.promises AS promises
    WHERE promises.run_id = p_run.id AND promises.namespace = p_run.namespace
        AND waiters.shard = promises.shard AND waiters.namespace = promises.namespace
        AND waiters.target = 'promise' AND waiters.target_id = promises.id;
    DELETE FROM signoff.waiters
    WHERE shard = p_run.id AND namespace = p_run.namespace AND target = 'run' AND target_id = p_run.id;
    DELETE FROM signoff.waiters WHERE run_id = p_run.id AND namespace = p_run.namespace;
    DELETE FROM signoff.promises WHERE run_id = p_run.id AND namespace = p_run.namespace;
    DELETE FROM signoff.journal WHERE run_id = p_run.id AND namespace = p_run.namespace;
    DELETE FROM signoff.messages WHERE run_id = p_run.id AND namespace = p_run.namespace;
    DELETE FROM signoff.requests WHERE run_id = p_run.id AND namespace = p_run.namespace;
    DELETE FROM signoff.runs WHERE id = p_run.id AND namespace = p_run.namespace;
END $$;

-- Delete runs without a parent that ended before a time. Those that another process deletes just now are left to it.
-- Returns their ids.
CREATE FUNCTION signoff.delete_ended(p_namespace text, p_before double precision, p_limit integer) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
BEGIN
    FOR deleted IN 1 .. p_limit LOOP
        SELECT * INTO run FROM signoff.runs
        WHERE namespace = p_namespace AND ended_at < p_before
            AND parent_id IS NULL AND ended_at IS NOT NULL AND NOT retryable
        ORDER BY ended_at, number LIMIT 1
        FOR UPDATE SKIP LOCKED;
        EXIT WHEN NOT FOUND;
        PERFORM signoff.delete_run(run);
        RETURN NEXT run.id;
    END LOOP;
END $$;
CALL signoff.plan_by_index('signoff.delete_ended');
