-- Limits: which ready runs may be claimed. Groups have rows, and claims from a limited group lock its row first; others
-- take no lock. The runs of a concurrency key share `slots`.
--
-- A ready run is a candidate for claims unless it is `blocked`. At any time those of a key that a claim would take are
-- among its candidates: a claim blocks what it passes over because the slots are taken; a run that becomes ready behind
-- enough candidates to take all slots is blocked at once; when a slot is freed, or a candidate vanishes, the first blocked
-- run is unblocked. Each of these holds an advisory lock on the slots until its commit.
--
-- Every transaction locks slots before runs (signoff.lock_runs), runs before groups. One that has locked a run already only
-- tries to lock slots: claims, deadlines and timers come again.

-- What the runs of one namespace, group, workflow and key have in common.
CREATE OR REPLACE FUNCTION signoff.slots_of(p_namespace text, p_group text, p_workflow text, p_key text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_key IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN encode(
        sha256(convert_to(jsonb_build_array(p_namespace, p_group, p_workflow, p_key)::text, 'UTF8')), 'hex'
    );
END $$;

CREATE OR REPLACE FUNCTION signoff.lock_slots(p_slots text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(p_slots, 0));
END $$;

-- True where there is no key.
CREATE OR REPLACE FUNCTION signoff.try_lock_slots(p_slots text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN p_slots IS NULL OR pg_try_advisory_xact_lock(hashtextextended(p_slots, 0));
END $$;

-- Have the reply to this operation say that workers may find something to claim. Read by signoff.apply.
CREATE OR REPLACE FUNCTION signoff.tell_workers() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('signoff.claimable', 'yes', true);
END $$;

-- How many slots are taken, counted up to a limit.
CREATE OR REPLACE FUNCTION signoff.slots_taken(p_slots text, p_limit integer) RETURNS integer
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
CREATE OR REPLACE FUNCTION signoff.line_up(p_run signoff.runs) RETURNS boolean
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
                WHERE slots = p_run.slots AND NOT blocked AND ended_at IS NULL
                    AND state || '' = 'ready'  -- so that no index of all ready runs seems to serve
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

-- Note that a run leaves the slots it had, or its place among those that wait: the next of its key is a candidate (of each
-- limit, should a key's runs have several), and workers are told. It gives up after so many that cannot be changed: they
-- are tried in one transaction.
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

-- The slots that the runs which an operation creates line up for.
CREATE OR REPLACE FUNCTION signoff.new_slots(p_op jsonb) RETURNS text[]
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
CREATE OR REPLACE FUNCTION signoff.taken_slots(p_ids text[], p_namespaces text[]) RETURNS text[]
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

-- Tell workers of the groups whose rate lets a start through again. Returns their namespaces.
CREATE OR REPLACE FUNCTION signoff.open_due(p_now double precision, p_limit integer) RETURNS SETOF text
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
CREATE OR REPLACE FUNCTION signoff.list_groups(p_namespace text, p_count_limit integer) RETURNS TABLE (
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
