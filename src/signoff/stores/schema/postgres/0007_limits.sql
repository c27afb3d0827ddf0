-- Limits: which ready runs may be claimed. Groups have rows, and claims from a limited group lock its row first; others
-- take no lock. The runs of a concurrency key share `slots`.
--
-- A ready run is a candidate for claims unless it is `blocked`. At any time those of a key that a claim would take are
-- among its candidates: a claim blocks what it passes over because the slots are taken; a run that becomes ready behind
-- enough candidates to take all slots is blocked at once; when a slot is freed, or a candidate vanishes, the first blocked
-- run is unblocked. Whoever does one of these holds an advisory lock on the slots until its commit.
--
-- Everybody locks slots before runs (signoff.lock_runs), runs before groups. Who has locked a run already only tries to
-- lock slots: claims and what time brings come again.

-- What the runs of one namespace, group, workflow and key have in common.
CREATE FUNCTION signoff.slots_of(p_namespace text, p_group text, p_workflow text, p_key text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_key IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN encode(
        sha256(convert_to(jsonb_build_array(p_namespace, p_group, p_workflow, p_key)::text, 'UTF8')), 'hex'
    );
END $$;

CREATE FUNCTION signoff.lock_slots(p_slots text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(p_slots, 0));
END $$;

-- True where there is no key.
CREATE FUNCTION signoff.try_lock_slots(p_slots text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN p_slots IS NULL OR pg_try_advisory_xact_lock(hashtextextended(p_slots, 0));
END $$;

-- Have the reply to this operation say that workers may find something to claim. Read by signoff.apply.
CREATE FUNCTION signoff.tell_workers() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('signoff.claimable', 'yes', true);
END $$;

-- How many slots are taken, counted up to a limit.
CREATE FUNCTION signoff.slots_taken(p_slots text, p_limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT count(*) FROM (
            SELECT FROM signoff.runs
            WHERE slots = p_slots AND state = 'running' AND NOT blocked AND ended_at IS NULL
            LIMIT p_limit
        ) AS running
    );
END $$;

-- Block a run that has become ready if no claim would take it yet. Returns whether it is blocked.
CREATE FUNCTION signoff.line_up(p_run signoff.runs) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    ahead integer;
BEGIN
    IF p_run.slots IS NULL OR p_run.state <> 'ready' THEN
        RETURN false;
    END IF;
    PERFORM signoff.lock_slots(p_run.slots);
    ahead := signoff.slots_taken(p_run.slots, p_run.concurrency_limit);
    IF ahead < p_run.concurrency_limit THEN
        -- Candidates that claims come to sooner, and that may take its slot.
        ahead := ahead + (
            SELECT count(*) FROM (
                SELECT FROM signoff.runs
                WHERE slots = p_run.slots AND state = 'ready' AND NOT blocked AND ended_at IS NULL
                    AND concurrency_limit >= p_run.concurrency_limit
                    AND (priority > p_run.priority
                        OR priority = p_run.priority AND (ready_at, number) < (p_run.ready_at, p_run.number))
                LIMIT p_run.concurrency_limit
            ) AS candidates
        );
    END IF;
    IF ahead < p_run.concurrency_limit THEN
        RETURN false;
    END IF;
    UPDATE signoff.runs SET blocked = true WHERE id = p_run.id AND namespace = p_run.namespace;
    RETURN true;
END $$;

-- Note that a run leaves the slots it had, or its place among those that wait: the next of its key is a candidate (of
-- each limit, should a key's runs have several), and workers are told.
CREATE FUNCTION signoff.slot_freed(p_namespace text, p_group text, p_slots text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    following record;
    last_limit integer := 0;
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
        WHERE slots = p_slots AND blocked AND concurrency_limit > last_limit
        ORDER BY concurrency_limit, priority DESC, ready_at, number LIMIT 1;
        EXIT WHEN NOT FOUND;
        UPDATE signoff.runs SET blocked = false WHERE id = following.id AND namespace = following.namespace;
        last_limit := following.concurrency_limit;
    END LOOP;
    PERFORM signoff.tell_workers();
END $$;

-- The slots that the runs which an operation creates line up for.
CREATE FUNCTION signoff.new_slots(p_op jsonb) RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    IF p_op ? 'new' AND p_op #>> '{new,concurrency_key}' IS NOT NULL THEN
        RETURN ARRAY[signoff.slots_of(
            p_op ->> 'namespace', p_op #>> '{new,group_name}', p_op #>> '{new,workflow}',
            p_op #>> '{new,concurrency_key}'
        )];
    END IF;
    IF p_op #> '{write,starts}' IS NULL THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(
        SELECT signoff.slots_of(
            p_op ->> 'namespace', new ->> 'group_name', new ->> 'workflow', new ->> 'concurrency_key'
        )
        FROM jsonb_array_elements(p_op #> '{write,starts}') AS new
        WHERE new ->> 'concurrency_key' IS NOT NULL
    );
END $$;

-- The slots that runs have or wait for.
CREATE FUNCTION signoff.taken_slots(p_ids text[], p_namespaces text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM signoff.runs WHERE slots IS NOT NULL AND NOT blocked AND ended_at IS NULL LIMIT 1;
    IF NOT FOUND THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(
        SELECT run.slots
        FROM unnest(p_ids, p_namespaces) AS listed (id, namespace)
        CROSS JOIN LATERAL (
            SELECT slots FROM signoff.runs WHERE id = listed.id AND namespace = listed.namespace
        ) AS run
        WHERE run.slots IS NOT NULL
    );
END $$;

-- The first of the runs that claims may take, in order: of each workflow so many, by its index. With p_again, only of those
-- that started before.
CREATE FUNCTION signoff.candidates(
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
                    AND runs.state = 'ready' AND NOT runs.blocked AND runs.epoch > 0
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
                    AND runs.state = 'ready' AND NOT runs.blocked
                ORDER BY runs.priority DESC, runs.ready_at, runs.number LIMIT p_limit
            ) AS run
            ORDER BY run.priority DESC, run.ready_at, run.number LIMIT p_limit;
    END IF;
END $$;

-- Choose the runs that a claim takes, in order, as far as limits allow, and lock them; what another claim has just now
-- locked is passed over. Returns {"ids": [...]}, with "due" if a rate's next opening has become due.
CREATE FUNCTION signoff.choose(
    p_namespace text, p_group text, p_workflows text[], p_limit integer, p_now double precision
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
    LOOP
        held_back := false;
        seen := 0;
        FOR candidate IN
            SELECT * FROM signoff.candidates(p_namespace, p_group, p_workflows, again, looked_at)
        LOOP
            seen := seen + 1;
            EXIT WHEN cardinality(taken) >= room;
            CONTINUE WHEN candidate.id = ANY (taken);
            IF candidate.slots IS NOT NULL AND NOT signoff.try_lock_slots(candidate.slots) THEN
                PERFORM signoff.tell_workers();  -- look again, when the other one is done
                CONTINUE;
            END IF;
            SELECT state, blocked INTO latest FROM signoff.runs
            WHERE id = candidate.id AND namespace = p_namespace
            FOR NO KEY UPDATE SKIP LOCKED;
            CONTINUE WHEN NOT FOUND OR latest.state <> 'ready' OR latest.blocked;
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
            EXIT WHEN cardinality(taken) >= room OR seen < looked_at;
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

-- Tell workers of the groups whose rate lets a start through again. Returns their namespaces.
CREATE FUNCTION signoff.open_due(p_now double precision, p_limit integer) RETURNS SETOF text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        UPDATE signoff.groups AS groups SET opens_at = NULL
        FROM (
            SELECT name, namespace FROM signoff.groups
            WHERE opens_at IS NOT NULL AND opens_at <= p_now
            ORDER BY opens_at LIMIT p_limit
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS opening
        WHERE groups.name = opening.name AND groups.namespace = opening.namespace
        RETURNING groups.namespace;
END $$;

-- Groups that are configured or have runs, by name, with how many runs they have, counted up to a limit.
CREATE FUNCTION signoff.list_groups(p_namespace text, p_count_limit integer) RETURNS TABLE (
    name text, is_paused boolean, max_running integer, rate_count integer, rate_seconds double precision,
    ready bigint, running bigint, paused bigint
)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    names text[] := ARRAY(SELECT name FROM signoff.groups WHERE namespace = p_namespace);
    next_name text := '';
BEGIN
    LOOP
        -- From one name to the next: however many runs a group has, one row of it is looked at.
        SELECT runs.group_name INTO next_name FROM signoff.runs AS runs
        WHERE runs.group_name > next_name
        ORDER BY runs.group_name LIMIT 1;
        EXIT WHEN NOT FOUND;
        PERFORM FROM signoff.runs AS runs
        WHERE runs.group_name = next_name AND runs.namespace = p_namespace LIMIT 1;
        IF FOUND THEN
            names := names || next_name;
        END IF;
    END LOOP;
    RETURN QUERY
        SELECT listed.name, coalesce(known.is_paused, false), known.max_running, known.rate_count, known.rate_seconds,
            counted.ready, counted.running, counted.paused
        FROM (SELECT DISTINCT unnest(names) COLLATE "C" AS name) AS listed
        LEFT JOIN signoff.groups AS known ON known.name = listed.name AND known.namespace = p_namespace
        CROSS JOIN LATERAL (
            SELECT
                signoff.count_runs(listed.name, p_namespace, 'ready', p_count_limit) AS ready,
                signoff.count_runs(listed.name, p_namespace, 'running', p_count_limit) AS running,
                signoff.count_runs(listed.name, p_namespace, 'paused', p_count_limit) AS paused
        ) AS counted
        ORDER BY listed.name;
END $$;

CREATE FUNCTION signoff.count_runs(p_group text, p_namespace text, p_state text, p_limit integer) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT count(*) FROM (
            SELECT FROM signoff.runs
            WHERE group_name = p_group AND namespace = p_namespace AND state = p_state
            LIMIT p_limit
        ) AS counted
    );
END $$;
