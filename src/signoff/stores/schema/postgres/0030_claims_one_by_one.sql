-- Claims run by run: for when the row of a ready run cannot be changed, which must keep no other run from workers.

-- Whether an error belongs to one row: lost connections, deadlocks, a server that stops or is full do not.
CREATE FUNCTION signoff.is_of_row(p_code text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT left(p_code, 2) NOT IN ('08', '25', '40', '53', '55', '57', '58') $$;

-- As in 0002_transitions.sql. A trigger, or a policy of row-level security, may keep a row as it is without an error.
CREATE OR REPLACE FUNCTION signoff.claim_rows(
    p_namespace text, p_ids text[], p_worker_id text, p_token text, p_lease_until double precision
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    leased integer;
BEGIN
    UPDATE signoff.runs AS runs
    SET state = 'running', epoch = epoch + 1, worker_id = p_worker_id, lease_until = p_lease_until,
        claim_token = p_token
    FROM (SELECT id, p_namespace AS namespace FROM unnest(p_ids) AS id OFFSET 0) AS chosen  -- each by its whole key
    WHERE runs.id = chosen.id AND runs.namespace = chosen.namespace;
    GET DIAGNOSTICS leased = ROW_COUNT;
    IF leased <> cardinality(p_ids) THEN
        RAISE EXCEPTION 'the database has left its row as it was';
    END IF;
END $$;

-- Block a run that a claim passes over. Returns why not, [id, SQLSTATE, error]; NULL if it is blocked.
CREATE FUNCTION signoff.block_alone(p_namespace text, p_id text) RETURNS jsonb
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
CREATE FUNCTION signoff.pass_over(p_namespace text, p_group text, p_ids text[]) RETURNS void
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

DROP FUNCTION signoff.room_for_suspects(text, text, text[], text);

-- As in 0027_suspects.sql, but for some runs; NULL: for none.
CREATE FUNCTION signoff.room_for_suspects(
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

DROP FUNCTION signoff.choose(text, text, text[], text, integer, double precision);

-- As in 0027_suspects.sql. With `p_besides`, these are passed over, and a run that cannot be blocked is one of "failures":
-- [[id, SQLSTATE, error], ...].
CREATE FUNCTION signoff.choose(
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

-- As in 0027_suspects.sql.
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

-- As signoff.claim, each run in a subtransaction of its own, but for those in `p_skipped`. Returns {"claims": ..., "due":
-- ..., "failures": [[id, SQLSTATE, error], ...], "ready": those of `p_known` that claims may take}. Suspects are claimed alone.
CREATE FUNCTION signoff.claim_each(
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
    WHILE cardinality(claims) < v_limit AND jsonb_array_length(failures) < p_failures AND size < p_bytes LOOP
        v_id := NULL;
        v_code := NULL;
        BEGIN
            choice := signoff.choose(v_namespace, v_group, workflows, v_worker_id, 1, v_now, p_skipped);
            v_id := choice #>> '{ids,0}';
            IF v_id IS NOT NULL THEN
                PERFORM signoff.claim_rows(v_namespace, ARRAY[v_id], v_worker_id, v_token, v_lease_until);
                SELECT takeovers >= 2, jsonb_build_array(signoff.run_values(run), CASE WHEN wakes > 0 THEN (
                    SELECT jsonb_agg(to_jsonb(messages) ORDER BY id) FROM signoff.messages
                    WHERE run_id = run.id AND namespace = run.namespace
                ) END)
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

-- As signoff.release_rows, each run in a subtransaction of its own. `code` and `error` say why one was not made ready.
CREATE FUNCTION signoff.release_each(p_worker_id text, p_now double precision, p_dead boolean)
RETURNS TABLE (namespace text, id text, code text, error text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held record;
    run signoff.runs;
BEGIN
    PERFORM signoff.lock_slots(slots) FROM (
        SELECT DISTINCT slots FROM signoff.runs WHERE worker_id = p_worker_id AND slots IS NOT NULL ORDER BY slots
    ) AS listed;
    FOR held IN
        SELECT id, namespace FROM signoff.runs WHERE worker_id = p_worker_id ORDER BY id, namespace
    LOOP
        BEGIN
            UPDATE signoff.runs AS runs
            SET state = CASE WHEN suspended_at IS NULL THEN 'ready' ELSE 'paused' END, ready_at = p_now,
                worker_id = NULL, lease_until = NULL,
                (takeovers, takeover_seq) = (
                    SELECT CASE WHEN p_dead THEN p_takeovers ELSE signoff.takeovers_of(runs) END,
                        CASE WHEN p_dead THEN p_seq ELSE runs.takeover_seq END
                    FROM signoff.count_takeover(runs.namespace, runs.id, runs.takeovers, runs.takeover_seq)
                )
            WHERE runs.id = held.id AND runs.namespace = held.namespace AND runs.worker_id = p_worker_id
            RETURNING runs.* INTO run;
            CONTINUE WHEN NOT FOUND;
            PERFORM signoff.slot_freed(run.namespace, run.group_name, run.slots);
            RETURN QUERY SELECT held.namespace, held.id, NULL::text, NULL::text;
        EXCEPTION WHEN OTHERS THEN
            IF NOT signoff.is_of_row(SQLSTATE) THEN
                RAISE;
            END IF;
            RETURN QUERY SELECT held.namespace, held.id, SQLSTATE, SQLERRM;
        END;
    END LOOP;
END $$;
CALL signoff.plan_by_index('signoff.release_each');
