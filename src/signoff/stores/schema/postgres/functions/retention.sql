-- Deleting runs that ended long ago, with everything that is theirs, and promises without a run.

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

-- Whether a settled promise without a run may still be read: a run has its id or has joined it, or a promise that may have
-- created it is pending.
CREATE OR REPLACE FUNCTION signoff.is_kept(p_promise signoff.promises) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_caller text;
BEGIN
    PERFORM FROM signoff.runs WHERE id = p_promise.id AND namespace = p_promise.namespace;
    IF FOUND THEN
        RETURN true;
    END IF;
    PERFORM FROM signoff.waiters
    WHERE shard = p_promise.shard AND namespace = p_promise.namespace
        AND target = 'promise' AND target_id = p_promise.id;
    IF FOUND THEN
        RETURN true;
    END IF;
    FOR v_caller IN
        SELECT branch FROM signoff.promise_branches
        WHERE shard = p_promise.shard AND namespace = p_promise.namespace AND promise_id = p_promise.id
        UNION ALL
        SELECT left(p_promise.id, place - 1) FROM generate_series(2, length(p_promise.id)) AS place
        WHERE substr(p_promise.id, place, 1) = '.'
    LOOP
        PERFORM FROM signoff.promises
        WHERE shard = signoff.shard_of(v_caller) AND namespace = p_promise.namespace AND id = v_caller
            AND state = 'pending';
        IF FOUND THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END $$;
CALL signoff.plan_by_index('signoff.is_kept');

-- Examine the next promises without a run that were settled before a time, and delete those that nothing reads. Those that
-- another transaction has locked are left. With `p_skipped`, each in a subtransaction of its own, but for those. Returns
-- {"deleted": how many, "after": [time, number] of the last one if there may be more, "failures": [[id, SQLSTATE, error]]}.
CREATE OR REPLACE FUNCTION signoff.delete_settled(
    p_namespace text, p_before double precision, p_limit integer, p_settled_at double precision, p_number bigint,
    p_skipped text[]
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    promise signoff.promises;
    v_examined integer := 0;
    v_deleted integer := 0;
    v_after jsonb;
    failures jsonb := '[]';
BEGIN
    FOR promise IN
        SELECT * FROM signoff.promises
        WHERE namespace = p_namespace AND run_id IS NULL AND settled_at IS NOT NULL AND settled_at < p_before
            AND (settled_at, number) > (p_settled_at, p_number)
        ORDER BY settled_at, number LIMIT p_limit
    LOOP
        v_examined := v_examined + 1;
        v_after := jsonb_build_array(promise.settled_at, promise.number);
        CONTINUE WHEN promise.id = ANY (p_skipped) OR signoff.is_kept(promise);
        IF p_skipped IS NULL THEN
            v_deleted := v_deleted + signoff.delete_promise(promise);
        ELSE
            BEGIN
                v_deleted := v_deleted + signoff.delete_promise(promise);
            EXCEPTION WHEN OTHERS THEN
                IF left(SQLSTATE, 2) IN ('08', '25', '40', '53', '55', '57', '58') THEN
                    RAISE;
                END IF;
                failures := failures || jsonb_build_array(jsonb_build_array(promise.id, SQLSTATE, SQLERRM));
            END;
        END IF;
    END LOOP;
    RETURN jsonb_build_object(
        'deleted', v_deleted, 'after', CASE WHEN v_examined = p_limit THEN v_after END, 'failures', failures
    );
END $$;
CALL signoff.plan_by_index('signoff.delete_settled');

-- Delete a promise without a run. A trigger deletes its task and listeners. Returns 0 if another transaction has locked it.
CREATE OR REPLACE FUNCTION signoff.delete_promise(p_promise signoff.promises) RETURNS integer
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM signoff.promises
    WHERE shard = p_promise.shard AND namespace = p_promise.namespace AND id = p_promise.id
        AND number = p_promise.number
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    DELETE FROM signoff.tokens
    WHERE question_id = p_promise.id AND namespace = p_promise.namespace AND kind = 'callback';
    DELETE FROM signoff.promises
    WHERE shard = p_promise.shard AND namespace = p_promise.namespace AND id = p_promise.id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the database has left its row as it was';
    END IF;
    RETURN 1;
END $$;
