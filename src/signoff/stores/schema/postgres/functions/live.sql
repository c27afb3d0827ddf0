-- Live text of steps.

-- Keep what was said under leases that hold. Returns the runs that it is of.
CREATE OR REPLACE FUNCTION signoff.publish(
    p_namespace text, p_run_ids text[], p_epochs integer[], p_seqs bigint[], p_ns integer[], p_names text[],
    p_attempts integer[], p_positions bigint[], p_kinds text[], p_texts text[], p_kept bigint
) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    held record;
BEGIN
    FOR held IN
        SELECT run.id, run.epoch
        FROM (
            SELECT DISTINCT run_id COLLATE "C" AS run_id, epoch
            FROM unnest(p_run_ids, p_epochs) AS said (run_id, epoch)
            ORDER BY run_id, epoch  -- in which all lock runs
        ) AS said
        CROSS JOIN LATERAL (
            SELECT id, epoch FROM signoff.runs
            WHERE id = said.run_id AND namespace = p_namespace AND epoch = said.epoch AND state = 'running'
            FOR SHARE
        ) AS run
    LOOP
        DELETE FROM signoff.live
        WHERE run_id = held.id AND namespace = p_namespace AND live.epoch < held.epoch;
        INSERT INTO signoff.live (run_id, namespace, epoch, seq, n, name, attempt, position, kind, text)
        SELECT held.id, p_namespace, held.epoch, new.seq, new.n, new.name, new.attempt, new.position, new.kind, new.text
        FROM unnest(
            p_run_ids, p_epochs, p_seqs, p_ns, p_names, p_attempts, p_positions, p_kinds, p_texts
        ) AS new (run_id, epoch, seq, n, name, attempt, position, kind, text)
        WHERE new.run_id = held.id AND new.epoch = held.epoch
        ON CONFLICT (run_id, namespace, epoch, seq) DO NOTHING;
        DELETE FROM signoff.live
        USING (
            SELECT new.n, new.attempt, max(new.position) - p_kept AS farthest
            FROM unnest(p_run_ids, p_epochs, p_ns, p_attempts, p_positions)
                AS new (run_id, epoch, n, attempt, position)
            WHERE new.run_id = held.id AND new.epoch = held.epoch
            GROUP BY new.n, new.attempt
        ) AS newest
        WHERE live.run_id = held.id AND live.namespace = p_namespace AND live.epoch = held.epoch
            AND newest.farthest > 0
            AND live.n = newest.n AND live.attempt = newest.attempt AND live.position < newest.farthest;
        RETURN NEXT held.id;
    END LOOP;
END $$;
CALL signoff.plan_by_index('signoff.publish');
