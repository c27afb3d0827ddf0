-- Deleting runs that ended long ago, with everything that is theirs.

-- Delete a run with everything that is its own. A journal that stays would be read as that of the next run of the id.
CREATE OR REPLACE FUNCTION signoff.delete_run(p_run signoff.runs) RETURNS void
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
    DELETE FROM signoff.tokens
    USING signoff.promises AS promises
    WHERE promises.run_id = p_run.id AND promises.namespace = p_run.namespace
        AND tokens.question_id = promises.id AND tokens.namespace = promises.namespace
        AND tokens.kind = 'callback';
    DELETE FROM signoff.promises WHERE run_id = p_run.id AND namespace = p_run.namespace;
    DELETE FROM signoff.journal WHERE run_id = p_run.id AND namespace = p_run.namespace;
    DELETE FROM signoff.messages WHERE run_id = p_run.id AND namespace = p_run.namespace;
    DELETE FROM signoff.deferred WHERE id = p_run.id AND namespace = p_run.namespace AND kind <> 'turn';
    DELETE FROM signoff.requests WHERE run_id = p_run.id AND namespace = p_run.namespace;
    DELETE FROM signoff.runs WHERE id = p_run.id AND namespace = p_run.namespace;
    IF NOT FOUND OR EXISTS (SELECT FROM signoff.journal WHERE run_id = p_run.id AND namespace = p_run.namespace) THEN
        RAISE EXCEPTION 'the database has left its row as it was';
    END IF;
END $$;

-- Delete runs without a parent that ended before a time. Those that another process deletes just now are left to it.
-- Returns their ids.
CREATE OR REPLACE FUNCTION signoff.delete_ended(p_namespace text, p_before double precision, p_limit integer) RETURNS SETOF text
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

-- As signoff.delete_ended, each run in a subtransaction of its own, but for the runs in `p_skipped`. Returns {"deleted":
-- ids, "failures": [[id, SQLSTATE, error], ...], "is_all": whether no more are to be deleted}.
CREATE OR REPLACE FUNCTION signoff.delete_each(
    p_namespace text, p_before double precision, p_limit integer, p_skipped text[], p_failures integer
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
    v_code text;
    v_error text;
    deleted jsonb := '[]';
    failures jsonb := '[]';
BEGIN
    WHILE jsonb_array_length(deleted) < p_limit AND jsonb_array_length(failures) < p_failures LOOP
        v_code := NULL;
        BEGIN
            SELECT * INTO run FROM signoff.runs
            WHERE namespace = p_namespace AND ended_at < p_before
                AND parent_id IS NULL AND ended_at IS NOT NULL AND NOT retryable AND id <> ALL (p_skipped)
            ORDER BY ended_at, number LIMIT 1
            FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                RETURN jsonb_build_object('deleted', deleted, 'failures', failures, 'is_all', true);
            END IF;
            PERFORM signoff.delete_run(run);
        EXCEPTION WHEN OTHERS THEN
            IF left(SQLSTATE, 2) IN ('08', '25', '40', '53', '55', '57', '58') OR run.id IS NULL THEN
                RAISE;
            END IF;
            v_code := SQLSTATE;
            v_error := SQLERRM;
        END;
        IF v_code IS NULL THEN
            deleted := deleted || to_jsonb(run.id);
        ELSE
            failures := failures || jsonb_build_array(jsonb_build_array(run.id, v_code, v_error));
            p_skipped := p_skipped || run.id;
        END IF;
    END LOOP;
    RETURN jsonb_build_object('deleted', deleted, 'failures', failures, 'is_all', false);
END $$;
CALL signoff.plan_by_index('signoff.delete_each');
