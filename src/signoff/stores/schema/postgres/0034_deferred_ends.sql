-- Deferred changes of a run are deleted with it, and a transaction tries few runs of a key.

-- As in 0014_callbacks.sql. Another run may get its id. Of a deferred turn, the id is a session's.
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
END $$;

-- As in 0032_deferred.sql, but it gives up after so many that cannot be changed: they are tried in one transaction.
CREATE OR REPLACE FUNCTION signoff.slot_freed(p_namespace text, p_group text, p_slots text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    following record;
    last_limit integer := 0;
    refused text[] := '{}';
BEGIN
    IF p_slots IS NULL THEN
        PERFORM FROM signoff.groups
        WHERE name = p_group AND namespace = p_namespace AND max_running IS NOT NULL;
        IF FOUND THEN
            PERFORM signoff.tell_workers();
        END IF;
        RETURN;
    END IF;
    PERFORM signoff.lock_slots(p_slots);
    LOOP
        SELECT id, namespace, concurrency_limit INTO following FROM signoff.runs
        WHERE slots = p_slots AND blocked AND concurrency_limit > last_limit AND id <> ALL (refused)
        ORDER BY concurrency_limit, priority DESC, ready_at, number LIMIT 1;
        EXIT WHEN NOT FOUND OR cardinality(refused) >= 200;
        BEGIN
            UPDATE signoff.runs SET blocked = false WHERE id = following.id AND namespace = following.namespace;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'the database has left its row as it was';
            END IF;
            last_limit := following.concurrency_limit;
        EXCEPTION WHEN OTHERS THEN
            IF NOT signoff.is_of_row(SQLSTATE) THEN
                RAISE;
            END IF;
            PERFORM signoff.defer('slot', following.namespace, following.id);
            refused := refused || following.id;
        END;
    END LOOP;
    PERFORM signoff.tell_workers();
END $$;
