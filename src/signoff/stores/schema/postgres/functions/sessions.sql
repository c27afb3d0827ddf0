-- Sessions: chains of runs of which one at most is active at a time. A run that is behind another one is paused in epoch 0
-- without a time, so no claim and no timer comes across it, however many they are.
--
-- Each transaction that starts or ends runs of a session holds an advisory lock on its turns until the commit, and takes
-- it before slots and runs (signoff.lock_runs).

-- What whoever passes the turn of a session locks.
CREATE OR REPLACE FUNCTION signoff.turns_of(p_namespace text, p_session_id text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN jsonb_build_array('session', p_namespace, p_session_id)::text;
END $$;

-- The run whose turn it is in a session.
CREATE OR REPLACE FUNCTION signoff.active_run(p_namespace text, p_session_id text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT id FROM signoff.runs
        WHERE session_id = p_session_id AND namespace = p_namespace AND (ended_at IS NULL OR retryable)
        ORDER BY position LIMIT 1
    );
END $$;
CALL signoff.plan_by_index('signoff.active_run');

-- Sessions, by when a run was last started in them, with the run whose turn it is.
CREATE OR REPLACE FUNCTION signoff.listed_sessions(p_namespace text, p_before bigint, p_limit integer) RETURNS TABLE (
    namespace text, id text, created_at double precision, last_at double precision, last_position integer,
    active_run_id text, last_number bigint
)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
        SELECT listed.namespace, listed.id, listed.created_at, listed.last_at, listed.last_position,
            signoff.active_run(listed.namespace, listed.id), listed.last_number
        FROM (
            SELECT * FROM signoff.sessions AS sessions
            WHERE sessions.namespace || '' = p_namespace AND sessions.last_number < p_before
            ORDER BY sessions.last_number DESC LIMIT p_limit
        ) AS listed;
END $$;
CALL signoff.plan_by_index('signoff.listed_sessions');

-- The sessions in which an operation may start or end runs; of these it may end, `p_concerned` are known.
CREATE OR REPLACE FUNCTION signoff.chains_of(p_op jsonb, p_concerned text[]) RETURNS SETOF text
LANGUAGE plpgsql AS $$
BEGIN
    IF p_op #>> '{new,session_id}' IS NOT NULL THEN
        RETURN NEXT p_op #>> '{new,session_id}';
    END IF;
    IF p_op #> '{write,starts}' IS NOT NULL THEN
        RETURN QUERY
            SELECT new ->> 'session_id' FROM jsonb_array_elements(p_op #> '{write,starts}') AS new
            WHERE new ->> 'session_id' IS NOT NULL;
    END IF;
    IF p_op -> 'write' ? 'outcome' OR p_op -> 'write' ? 'cancels'
        OR p_op ->> 'op' IN ('cancel', 'terminate', 'retry', 'resume') THEN
        RETURN QUERY
            SELECT run.session_id FROM unnest(p_concerned) AS listed (id)
            CROSS JOIN LATERAL (
                SELECT runs.session_id FROM signoff.runs AS runs
                WHERE runs.id = listed.id AND runs.namespace = p_op ->> 'namespace' OFFSET 0
            ) AS run
            WHERE run.session_id || '' IS NOT NULL;
    END IF;
END $$;

-- Whether the first run of a session waits for its turn.
CREATE OR REPLACE FUNCTION signoff.awaits_turn(p_namespace text, p_session_id text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM signoff.runs
        WHERE id = signoff.active_run(p_namespace, p_session_id) AND namespace = p_namespace AND epoch = 0
            AND state || '' = 'paused' AND wake_at IS NULL AND suspended_at IS NULL
    );
END $$;

-- Give the turn of a session to its next run; later, if the run's row cannot be changed.
CREATE OR REPLACE FUNCTION signoff.pass_turn(p_namespace text, p_session_id text, p_now double precision) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM signoff.lock_slots(signoff.turns_of(p_namespace, p_session_id));
    IF NOT signoff.awaits_turn(p_namespace, p_session_id) THEN
        RETURN;
    END IF;
    BEGIN
        PERFORM signoff.take_turn(p_namespace, p_session_id, p_now);
    EXCEPTION WHEN OTHERS THEN
        IF NOT signoff.is_of_row(SQLSTATE) THEN
            RAISE;
        END IF;
        PERFORM signoff.defer('turn', p_namespace, p_session_id);
    END;
END $$;
