-- Claims, and leases. Runs that have lost workers again and again without progress, suspects, are claimed apart from
-- others: see stores/shared/suspect_runs.py. Claims run by run are for when the row of a ready run cannot be changed, which
-- must keep no other run from workers.

-- The first of the runs that claims may take, in order, without suspects: of each workflow so many, by its index. With
-- p_again, only of those that started before.
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
CREATE OR REPLACE FUNCTION signoff.suspects(
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

-- The level of the suspects that a worker may claim, NULL for none, and how many of them it has room for; only for the
-- suspects beside `p_besides`.
CREATE OR REPLACE FUNCTION signoff.room_for_suspects(
    p_namespace text, p_group text, p_workflows text[], p_worker_id text, p_besides text[],
    OUT p_level integer, OUT p_room integer
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
            AND (p_besides IS NULL OR runs.id <> ALL (p_besides))
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

-- Whether an error belongs to one row: lost connections, deadlocks, a server that stops or is full do not.
CREATE OR REPLACE FUNCTION signoff.is_of_row(p_code text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT left(p_code, 2) NOT IN ('08', '25', '40', '53', '55', '57', '58') $$;

-- Block a run that a claim passes over. Returns why not, [id, SQLSTATE, error]; NULL if it is blocked.
CREATE OR REPLACE FUNCTION signoff.block_alone(p_namespace text, p_id text) RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE signoff.runs SET blocked = true WHERE id = p_id AND namespace = p_namespace;
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    IF NOT signoff.is_of_row(SQLSTATE) THEN
        RAISE;
    END IF;
    RETURN jsonb_build_array(p_id, SQLSTATE, SQLERRM);
END $$;

-- Make the next ones of their keys candidates, in the places of ready runs of a group that cannot be claimed.
CREATE OR REPLACE FUNCTION signoff.pass_over(p_namespace text, p_group text, p_ids text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    shared record;
BEGIN
    FOR shared IN
        SELECT run.slots, max(run.concurrency_limit) AS most FROM unnest(p_ids) AS listed (id)
        CROSS JOIN LATERAL (
            SELECT runs.slots, runs.concurrency_limit FROM signoff.runs AS runs
            WHERE runs.id = listed.id AND runs.namespace = p_namespace AND runs.group_name || '' = p_group
                AND runs.state || '' = 'ready' AND runs.slots || '' IS NOT NULL
        ) AS run
        GROUP BY run.slots ORDER BY run.slots
    LOOP
        CONTINUE WHEN NOT signoff.try_lock_slots(shared.slots)
            OR signoff.slots_taken(shared.slots, shared.most) >= shared.most;
        BEGIN
            PERFORM signoff.slot_freed(p_namespace, p_group, shared.slots);
        EXCEPTION WHEN OTHERS THEN
            IF NOT signoff.is_of_row(SQLSTATE) THEN
                RAISE;
            END IF;
        END;
    END LOOP;
    PERFORM set_config('signoff.claimable', '', true);  -- this claim looks itself
END $$;

-- Choose the runs that a claim takes, in order, as far as limits allow, and lock them; what another claim has just now
-- locked is passed over. Returns {"ids": [...]}, with "due" if a rate's next opening has become due. With `p_besides`,
-- these are passed over, and a run that cannot be blocked is one of "failures": [[id, SQLSTATE, error], ...].
CREATE OR REPLACE FUNCTION signoff.choose(
    p_namespace text, p_group text, p_workflows text[], p_worker_id text, p_limit integer, p_now double precision,
    p_besides text[]
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
    failure jsonb;
    failures jsonb;
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
    FROM signoff.room_for_suspects(p_namespace, p_group, p_workflows, p_worker_id, p_besides);
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
            CONTINUE WHEN candidate.id = ANY (taken) OR candidate.id = ANY (p_besides);
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
                IF p_besides IS NULL THEN
                    UPDATE signoff.runs SET blocked = true WHERE id = candidate.id AND namespace = p_namespace;
                ELSE
                    failure := signoff.block_alone(p_namespace, candidate.id);
                    IF failure IS NOT NULL THEN
                        failures := coalesce(failures, '[]') || jsonb_build_array(failure);
                        p_besides := p_besides || candidate.id;
                    END IF;
                END IF;
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
    RETURN jsonb_build_object('ids', taken) || CASE WHEN is_due THEN '{"due": true}' ELSE '{}' END::jsonb
        || CASE WHEN failures IS NULL THEN '{}' ELSE jsonb_build_object('failures', failures) END;
END $$;

-- A run that was claimed, and the messages that wait for it. If these have more than `p_most` bytes none of them is read
-- here, and the run's counter says that not all were seen: the worker reads them page by page.
CREATE OR REPLACE FUNCTION signoff.claimed(p_run jsonb, p_most integer) RETURNS jsonb
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

-- Lease ready runs to a worker, and bring the messages that wait for them, up to 4 MiB for all runs and 256 KiB for each.
-- Each run is a list, see signoff.run_values and signoff.claimed.
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
            v_worker_id, (p_op ->> 'limit')::integer, p_now, NULL
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
                CASE
                    WHEN wakes = 0 THEN jsonb_build_array(signoff.run_values(run), NULL)
                    ELSE signoff.claimed(
                        signoff.run_values(run), greatest(4194304 / greatest((p_op ->> 'limit')::integer, 1), 262144)
                    )
                END
                ORDER BY priority DESC, ready_at, number
            )
        )
        FROM signoff.runs AS run
        WHERE worker_id = v_worker_id AND claim_token = v_token AND namespace = v_namespace
    );
END $$;

-- As signoff.claim, each run in a subtransaction of its own, but for those in `p_skipped`; at once if that goes well.
-- Returns {"claims": ..., "due": ..., "failures": [[id, SQLSTATE, error], ...], "ready": those of `p_known` that claims may
-- take}. Suspects are claimed alone.
CREATE OR REPLACE FUNCTION signoff.claim_each(
    p_op jsonb, p_now double precision, p_lease_now double precision, p_skipped text[], p_known text[],
    p_failures integer, p_bytes bigint
) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    db_now constant double precision := extract(epoch FROM clock_timestamp());
    v_now constant double precision := coalesce(p_now, db_now);
    v_lease_until constant double precision :=
        coalesce(p_lease_now, db_now) + (p_op ->> 'lease_seconds')::double precision;
    v_namespace constant text := p_op ->> 'namespace';
    v_group constant text := p_op ->> 'group';
    v_worker_id constant text := p_op ->> 'worker_id';
    v_token constant text := p_op ->> 'token';
    v_limit constant integer := (p_op ->> 'limit')::integer;
    workflows constant text[] := ARRAY(SELECT jsonb_array_elements_text(p_op -> 'workflows'));
    choice jsonb;
    claimed jsonb;
    are_claimed boolean := false;
    is_suspect boolean;
    size bigint := 0;
    v_id text;
    v_code text;
    v_error text;
    claims jsonb[] := '{}';
    failures jsonb := '[]';
    due jsonb := '{}';
BEGIN
    PERFORM FROM signoff.runs
    WHERE worker_id = v_worker_id AND claim_token = v_token AND namespace = v_namespace LIMIT 1;
    IF FOUND THEN  -- it is this very claim, whose reply was lost
        RETURN signoff.claim(p_op, v_now, coalesce(p_lease_now, db_now))
            || jsonb_build_object('failures', failures, 'ready', p_known);
    END IF;
    PERFORM signoff.pass_over(v_namespace, v_group, p_skipped);
    BEGIN
        choice := signoff.choose(v_namespace, v_group, workflows, v_worker_id, v_limit, v_now, p_skipped);
        PERFORM signoff.claim_rows(
            v_namespace, ARRAY(SELECT jsonb_array_elements_text(choice -> 'ids')), v_worker_id, v_token, v_lease_until
        );
        SELECT coalesce(array_agg(
            CASE
                WHEN wakes = 0 THEN jsonb_build_array(signoff.run_values(run), NULL)
                ELSE signoff.claimed(
                    signoff.run_values(run), greatest(4194304 / greatest((p_op ->> 'limit')::integer, 1), 262144)
                )
            END
            ORDER BY priority DESC, ready_at, number
        ), '{}') INTO claims
        FROM signoff.runs AS run
        WHERE worker_id = v_worker_id AND claim_token = v_token AND namespace = v_namespace;
        failures := coalesce(choice -> 'failures', '[]');
        due := choice - 'ids' - 'failures';
        are_claimed := true;
    EXCEPTION WHEN OTHERS THEN
        IF NOT signoff.is_of_row(SQLSTATE) THEN
            RAISE;
        END IF;
    END;
    WHILE NOT are_claimed AND cardinality(claims) < v_limit AND jsonb_array_length(failures) < p_failures
        AND size < p_bytes LOOP
        v_id := NULL;
        v_code := NULL;
        BEGIN
            choice := signoff.choose(v_namespace, v_group, workflows, v_worker_id, 1, v_now, p_skipped);
            v_id := choice #>> '{ids,0}';
            IF v_id IS NOT NULL THEN
                PERFORM signoff.claim_rows(v_namespace, ARRAY[v_id], v_worker_id, v_token, v_lease_until);
                SELECT takeovers >= 2, CASE
                    WHEN wakes = 0 THEN jsonb_build_array(signoff.run_values(run), NULL)
                    ELSE signoff.claimed(
                        signoff.run_values(run), greatest(4194304 / greatest((p_op ->> 'limit')::integer, 1), 262144)
                    )
                END
                INTO is_suspect, claimed
                FROM signoff.runs AS run WHERE id = v_id AND namespace = v_namespace;
            END IF;
        EXCEPTION WHEN OTHERS THEN
            IF NOT signoff.is_of_row(SQLSTATE) OR v_id IS NULL THEN
                RAISE;
            END IF;
            v_code := SQLSTATE;
            v_error := SQLERRM;
        END;
        IF v_code IS NOT NULL THEN
            failures := failures || jsonb_build_array(jsonb_build_array(v_id, v_code, v_error));
            p_skipped := p_skipped || v_id;
            PERFORM signoff.pass_over(v_namespace, v_group, ARRAY[v_id]);
            CONTINUE;
        END IF;
        IF choice ? 'failures' THEN
            failures := failures || (choice -> 'failures');
            p_skipped := p_skipped || ARRAY(
                SELECT failed ->> 0 FROM jsonb_array_elements(choice -> 'failures') AS failed
            );
        END IF;
        due := due || choice - 'ids' - 'failures';
        EXIT WHEN v_id IS NULL;
        claims := claims || claimed;
        size := size + length(claimed::text);
        EXIT WHEN is_suspect;
    END LOOP;
    RETURN due || jsonb_build_object(
        'claims', to_jsonb(claims), 'failures', failures,
        'claimable', current_setting('signoff.claimable', true) = 'yes',
        'ready', ARRAY(
            SELECT run.id FROM unnest(p_known) AS listed (id)
            CROSS JOIN LATERAL (
                SELECT runs.id FROM signoff.runs AS runs
                WHERE runs.id = listed.id AND runs.namespace = v_namespace
                    AND runs.state || '' = 'ready' AND NOT runs.blocked
            ) AS run
        )
    );
END $$;
CALL signoff.plan_by_index('signoff.claim_each');

-- Extend leases: one statement for all runs of a worker. Returns those that it still holds.
CREATE OR REPLACE FUNCTION signoff.heartbeat(
    p_namespace text, p_worker_id text, p_run_ids text[], p_epochs integer[], p_lease_now double precision,
    p_lease_seconds double precision
) RETURNS SETOF text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        UPDATE signoff.runs AS runs
        SET lease_until = coalesce(p_lease_now, extract(epoch FROM clock_timestamp())) + p_lease_seconds
        FROM (
            SELECT run.id, run.namespace
            FROM unnest(p_run_ids, p_epochs) AS held (run_id, epoch)
            CROSS JOIN LATERAL (
                SELECT id, namespace, worker_id FROM signoff.runs
                WHERE id = held.run_id AND namespace = p_namespace AND epoch = held.epoch
                FOR NO KEY UPDATE
            ) AS run
            WHERE run.worker_id = p_worker_id
        ) AS kept
        WHERE runs.id = kept.id AND runs.namespace = kept.namespace
        RETURNING runs.id;
END $$;

-- Count `p_served` seconds more. Returns until when leases must have run out to be freed all the same; NULL: none is.
CREATE OR REPLACE FUNCTION signoff.hold_leases(
    p_lease_now double precision, p_served double precision, p_lease_seconds double precision
) RETURNS double precision
LANGUAGE plpgsql AS $$
DECLARE
    v_now constant double precision := coalesce(p_lease_now, extract(epoch FROM clock_timestamp()));
    held signoff.held_leases;
BEGIN
    IF NOT EXISTS (SELECT FROM signoff.runs WHERE state = 'running' AND lease_until <= v_now)
        AND NOT EXISTS (SELECT FROM signoff.tasks WHERE state = 'acquired' AND lease_until <= v_now)
    THEN
        RETURN NULL;
    END IF;
    SELECT * INTO held FROM signoff.held_leases FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        INSERT INTO signoff.held_leases VALUES (1, v_now, 0, v_now) ON CONFLICT DO NOTHING;
        RETURN NULL;
    END IF;
    held.before := least(held.before, v_now);
    IF NOT EXISTS (SELECT FROM signoff.runs WHERE state = 'running' AND lease_until <= held.before)
        AND NOT EXISTS (SELECT FROM signoff.tasks WHERE state = 'acquired' AND lease_until <= held.before)
    THEN
        UPDATE signoff.held_leases SET before = v_now, served = 0, at = v_now, but_until = NULL;
        RETURN NULL;
    END IF;
    -- Several processes may count the same time.
    held.served := held.served + least(p_served, greatest(0, v_now - held.at));
    IF held.but_until > v_now THEN
        held.but_until := v_now;  -- the clock was set back
    END IF;
    IF held.served >= p_lease_seconds THEN
        held.but_until := held.before;
        held.before := v_now;
        held.served := 0;
    END IF;
    UPDATE signoff.held_leases
    SET before = held.before, served = held.served, at = v_now, but_until = held.but_until;
    RETURN held.but_until;
END $$;
CALL signoff.plan_by_index('signoff.hold_leases');
