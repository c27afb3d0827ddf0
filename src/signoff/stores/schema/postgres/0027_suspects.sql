-- Runs that have lost workers again and again without progress are claimed apart from others: see stores/shared/suspect_runs.py.

DROP INDEX signoff.runs_ready;
DROP INDEX signoff.runs_ready_again;
CREATE INDEX runs_ready ON signoff.runs (workflow, group_name, namespace, priority DESC, ready_at, number)
    WHERE state = 'ready' AND NOT blocked AND takeovers < 2;
CREATE INDEX runs_ready_again ON signoff.runs (workflow, group_name, namespace, priority DESC, ready_at, number)
    WHERE state = 'ready' AND NOT blocked AND takeovers < 2 AND epoch > 0;
-- Its expressions serve no other statement, and no other index serves theirs, however little the planner knows.
CREATE INDEX runs_suspects ON signoff.runs (
    (workflow || ''), (group_name || ''), (namespace || ''), least(takeovers, 4), priority DESC, ready_at, number
) WHERE (state || '') = 'ready' AND NOT blocked AND takeovers >= 2;
CREATE INDEX runs_held_suspects ON signoff.runs ((worker_id || '')) WHERE worker_id IS NOT NULL AND takeovers >= 2;

-- How many takeovers a run has since its journal last grew.
CREATE FUNCTION signoff.takeovers_of(p_run signoff.runs) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF (p_run).takeovers > 0 AND signoff.next_seq((p_run).namespace, (p_run).id) > (p_run).takeover_seq THEN
        RETURN 0;
    END IF;
    RETURN (p_run).takeovers;
END $$;

-- running -> paused: progress clears a run of the takeovers before it
CREATE OR REPLACE FUNCTION signoff.pause_row(
    p_namespace text, p_run_id text, p_epoch integer, p_wakes integer, p_wake_at double precision
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_group text;
    v_slots text;
BEGIN
    UPDATE signoff.runs
    SET state = 'paused', wake_at = CASE WHEN suspended_at IS NULL THEN p_wake_at END, worker_id = NULL,
        lease_until = NULL, takeovers = CASE WHEN takeovers = 0 THEN 0 ELSE signoff.takeovers_of(runs) END
    WHERE id = p_run_id AND namespace = p_namespace AND epoch = p_epoch
        AND (wakes = p_wakes OR suspended_at IS NOT NULL) AND lease_until IS NOT NULL
    RETURNING group_name, slots INTO v_group, v_slots;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM signoff.slot_freed(p_namespace, v_group, v_slots);
    RETURN true;
END $$;

-- As in 0024_suspension.sql, and progress clears a run that is let go in order, too.
CREATE OR REPLACE FUNCTION signoff.release_rows(p_worker_id text, p_now double precision, p_dead boolean)
RETURNS TABLE (namespace text, id text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    run signoff.runs;
BEGIN
    PERFORM signoff.lock_slots(slots) FROM (
        SELECT DISTINCT slots FROM signoff.runs WHERE worker_id = p_worker_id AND slots IS NOT NULL ORDER BY slots
    ) AS held;
    FOR run IN
        UPDATE signoff.runs AS runs
        SET state = CASE WHEN suspended_at IS NULL THEN 'ready' ELSE 'paused' END, ready_at = p_now,
            worker_id = NULL, lease_until = NULL,
            (takeovers, takeover_seq) = (
                SELECT CASE WHEN p_dead THEN p_takeovers ELSE signoff.takeovers_of(runs) END,
                    CASE WHEN p_dead THEN p_seq ELSE runs.takeover_seq END
                FROM signoff.count_takeover(runs.namespace, runs.id, runs.takeovers, runs.takeover_seq)
            )
        FROM (
            SELECT id, namespace FROM signoff.runs
            WHERE worker_id = p_worker_id
            ORDER BY id, namespace
            FOR NO KEY UPDATE
        ) AS held
        WHERE runs.id = held.id AND runs.namespace = held.namespace
        RETURNING runs.*
    LOOP
        PERFORM signoff.slot_freed(run.namespace, run.group_name, run.slots);
        RETURN QUERY SELECT run.namespace, run.id;
    END LOOP;
END $$;

-- As in 0007_limits.sql, without suspects.
CREATE OR REPLACE FUNCTION signoff.candidates(
    p_namespace text, p_group text, p_workflows text[], p_again boolean, p_limit integer
) RETURNS TABLE (id text, epoch integer, slots text, concurrency_limit integer)
LANGUAGE plpgsql AS $$
BEGIN
    IF p_again THEN
        RETURN QUERY
            SELECT run.id, run.epoch, run.slots, run.concurrency_limit
            FROM unnest(p_workflows) AS name
            CROSS JOIN LATERAL (
                SELECT runs.* FROM signoff.runs AS runs
                WHERE runs.workflow = name AND runs.group_name = p_group AND runs.namespace = p_namespace
                    AND runs.state = 'ready' AND NOT runs.blocked AND runs.takeovers < 2 AND runs.epoch > 0
                ORDER BY runs.priority DESC, runs.ready_at, runs.number LIMIT p_limit
            ) AS run
            ORDER BY run.priority DESC, run.ready_at, run.number LIMIT p_limit;
    ELSE
        RETURN QUERY
            SELECT run.id, run.epoch, run.slots, run.concurrency_limit
            FROM unnest(p_workflows) AS name
            CROSS JOIN LATERAL (
                SELECT runs.* FROM signoff.runs AS runs
                WHERE runs.workflow = name AND runs.group_name = p_group AND runs.namespace = p_namespace
                    AND runs.state = 'ready' AND NOT runs.blocked AND runs.takeovers < 2
                ORDER BY runs.priority DESC, runs.ready_at, runs.number LIMIT p_limit
            ) AS run
            ORDER BY run.priority DESC, run.ready_at, run.number LIMIT p_limit;
    END IF;
END $$;

-- The first of the suspects of a level that claims may take, in order: of each workflow so many, by its index.
CREATE FUNCTION signoff.suspects(
    p_namespace text, p_group text, p_workflows text[], p_level integer, p_limit integer
) RETURNS TABLE (id text, epoch integer, slots text, concurrency_limit integer)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        SELECT run.id, run.epoch, run.slots, run.concurrency_limit
        FROM unnest(p_workflows) AS name
        CROSS JOIN LATERAL (
            SELECT runs.* FROM signoff.runs AS runs
            WHERE runs.workflow || '' = name AND runs.group_name || '' = p_group AND runs.namespace || '' = p_namespace
                AND runs.state || '' = 'ready' AND NOT runs.blocked AND runs.takeovers >= 2
                AND least(runs.takeovers, 4) = p_level
            ORDER BY runs.priority DESC, runs.ready_at, runs.number LIMIT p_limit
        ) AS run
        ORDER BY run.priority DESC, run.ready_at, run.number LIMIT p_limit;
END $$;

-- The level of the suspects that a worker may claim, NULL for none, and how many of them it has room for.
CREATE FUNCTION signoff.room_for_suspects(
    p_namespace text, p_group text, p_workflows text[], p_worker_id text, OUT p_level integer, OUT p_room integer
)
LANGUAGE plpgsql AS $$
DECLARE
    v_held integer;
    v_held_level integer;
BEGIN
    SELECT max(run.level) INTO p_level
    FROM unnest(p_workflows) AS name
    CROSS JOIN LATERAL (
        SELECT least(runs.takeovers, 4) AS level FROM signoff.runs AS runs
        WHERE runs.workflow || '' = name AND runs.group_name || '' = p_group AND runs.namespace || '' = p_namespace
            AND runs.state || '' = 'ready' AND NOT runs.blocked AND runs.takeovers >= 2
        ORDER BY least(runs.takeovers, 4) DESC LIMIT 1
    ) AS run;
    IF p_level IS NULL THEN
        RETURN;
    END IF;
    SELECT count(*), max(least(held.takeovers, 4)) INTO v_held, v_held_level
    FROM (
        SELECT signoff.takeovers_of(runs) AS takeovers FROM signoff.runs AS runs
        WHERE runs.worker_id || '' = p_worker_id AND runs.worker_id IS NOT NULL AND runs.takeovers >= 2
    ) AS held
    WHERE held.takeovers >= 2;
    p_level := coalesce(v_held_level, p_level);
    p_room := CASE p_level WHEN 2 THEN 100 WHEN 3 THEN 10 ELSE 1 END - v_held;
    IF p_room <= 0 THEN
        p_level := NULL;
    END IF;
END $$;

DROP FUNCTION signoff.choose(text, text, text[], integer, double precision);

-- As in 0007_limits.sql: choose the runs that a claim takes, suspects or others, in order, as far as limits allow, and lock
-- them; what another claim has just now locked is passed over. Returns {"ids": [...]}, with "due" if a rate's next opening has become due.
CREATE FUNCTION signoff.choose(
    p_namespace text, p_group text, p_workflows text[], p_worker_id text, p_limit integer, p_now double precision
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    again boolean := false;  -- only those that started before
    looked_at integer := p_limit;  -- that many candidates at first
    seen integer;
    limits signoff.groups;
    room integer := p_limit;
    starts integer;  -- that the rate allows
    started integer := 0;
    each double precision;
    whole double precision;  -- when the allowance is whole again
    opening double precision;  -- when the rate lets the next start through
    is_due boolean := false;
    candidate record;
    latest record;
    taken text[] := '{}';
    taken_slots text[] := '{}';
    held_back boolean;
    level integer;  -- of the suspects that are looked at; NULL: others
    most integer;  -- that are taken of these
BEGIN
    SELECT * INTO limits FROM signoff.groups WHERE name = p_group AND namespace = p_namespace;
    IF limits.max_running IS NOT NULL OR limits.rate_count IS NOT NULL THEN
        SELECT * INTO limits FROM signoff.groups WHERE name = p_group AND namespace = p_namespace
        FOR NO KEY UPDATE;
    END IF;
    IF limits.is_paused THEN
        RETURN '{"ids": []}';
    END IF;
    IF limits.max_running IS NOT NULL THEN
        room := least(p_limit, limits.max_running - (
            SELECT count(*) FROM (
                SELECT FROM signoff.runs
                WHERE group_name = p_group AND namespace = p_namespace AND state = 'running'
                LIMIT limits.max_running
            ) AS running
        ));
        IF room <= 0 THEN
            RETURN '{"ids": []}';
        END IF;
    END IF;
    IF limits.rate_count IS NOT NULL THEN
        -- GCRA. Rounding may take a millionth of a start from the allowance; clocks may have been set back.
        each := limits.rate_seconds / limits.rate_count;
        whole := coalesce(least(greatest(limits.whole_at, p_now), p_now + limits.rate_seconds), p_now);
        starts := floor((p_now + limits.rate_seconds - whole) / each + 1e-6)::integer;
        opening := whole + (starts + 1) * each - limits.rate_seconds;
    END IF;
    SELECT p_level, least(room, p_room) INTO level, most
    FROM signoff.room_for_suspects(p_namespace, p_group, p_workflows, p_worker_id);
    LOOP
        held_back := false;
        seen := 0;
        IF level IS NULL THEN
            most := room;
        END IF;
        FOR candidate IN
            SELECT * FROM signoff.candidates(p_namespace, p_group, p_workflows, again, looked_at) WHERE level IS NULL
            UNION ALL
            SELECT * FROM signoff.suspects(p_namespace, p_group, p_workflows, level, looked_at) WHERE level IS NOT NULL
        LOOP
            seen := seen + 1;
            EXIT WHEN cardinality(taken) >= most;
            CONTINUE WHEN candidate.id = ANY (taken);
            IF candidate.slots IS NOT NULL AND NOT signoff.try_lock_slots(candidate.slots) THEN
                PERFORM signoff.tell_workers();  -- look again, when the other one is done
                CONTINUE;
            END IF;
            SELECT state, blocked, takeovers >= 2 AS is_suspect INTO latest FROM signoff.runs
            WHERE id = candidate.id AND namespace = p_namespace
            FOR NO KEY UPDATE SKIP LOCKED;
            CONTINUE WHEN NOT FOUND OR latest.state <> 'ready' OR latest.blocked
                OR latest.is_suspect <> (level IS NOT NULL);
            IF candidate.slots IS NOT NULL AND candidate.concurrency_limit <= (
                signoff.slots_taken(candidate.slots, candidate.concurrency_limit)
                + cardinality(array_positions(taken_slots, candidate.slots))
            ) THEN
                UPDATE signoff.runs SET blocked = true WHERE id = candidate.id AND namespace = p_namespace;
                CONTINUE;
            END IF;
            IF candidate.epoch = 0 AND started = starts THEN
                held_back := true;
                EXIT;
            END IF;
            taken := taken || candidate.id;
            taken_slots := taken_slots || candidate.slots;
            started := started + (candidate.epoch = 0)::integer;
        END LOOP;
        IF held_back THEN
            is_due := limits.opens_at IS DISTINCT FROM opening;
            again := true;  -- those that started before are not held back
        ELSE
            IF level IS NOT NULL AND cardinality(taken) = 0 AND seen < looked_at THEN
                level := NULL;  -- none of them may run now
                looked_at := p_limit;
                CONTINUE;
            END IF;
            EXIT WHEN cardinality(taken) >= most OR seen < looked_at;
            looked_at := looked_at * 4;  -- some were passed over
        END IF;
    END LOOP;
    IF started > 0 AND starts IS NOT NULL OR is_due THEN
        UPDATE signoff.groups
        SET whole_at = whole + started * limits.rate_seconds / limits.rate_count,
            opens_at = CASE WHEN is_due THEN opening ELSE opens_at END
        WHERE name = p_group AND namespace = p_namespace;
    END IF;
    RETURN jsonb_build_object('ids', taken) || CASE WHEN is_due THEN '{"due": true}' ELSE '{}' END::jsonb;
END $$;

-- As in 0005_batches.sql.
CREATE OR REPLACE FUNCTION signoff.claim(p_op jsonb, p_now double precision, p_lease_now double precision) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_namespace constant text := p_op ->> 'namespace';
    v_worker_id constant text := p_op ->> 'worker_id';
    v_token constant text := p_op ->> 'token';
    choice jsonb := '{}';
BEGIN
    PERFORM FROM signoff.runs
    WHERE worker_id = v_worker_id AND claim_token = v_token AND namespace = v_namespace LIMIT 1;
    IF NOT FOUND THEN  -- else it is this very claim, whose reply was lost
        choice := signoff.choose(
            v_namespace, p_op ->> 'group', ARRAY(SELECT jsonb_array_elements_text(p_op -> 'workflows')),
            v_worker_id, (p_op ->> 'limit')::integer, p_now
        );
        IF choice -> 'ids' = '[]' THEN
            RETURN choice;
        END IF;
        PERFORM signoff.claim_rows(
            v_namespace, ARRAY(SELECT jsonb_array_elements_text(choice -> 'ids')), v_worker_id, v_token,
            p_lease_now + (p_op ->> 'lease_seconds')::double precision
        );
    END IF;
    RETURN choice - 'ids' || (  -- "due", if a rate has held one back
        SELECT jsonb_build_object(
            'claims',
            jsonb_agg(
                jsonb_build_array(signoff.run_values(run), CASE WHEN wakes > 0 THEN (
                    SELECT jsonb_agg(to_jsonb(messages) ORDER BY id) FROM signoff.messages
                    WHERE run_id = run.id AND namespace = run.namespace
                ) END)
                ORDER BY priority DESC, ready_at, number
            )
        )
        FROM signoff.runs AS run
        WHERE worker_id = v_worker_id AND claim_token = v_token AND namespace = v_namespace
    );
END $$;
