-- Child runs, and waits for other runs. A run that would wait for a run which waits for it is refused: neither could go on.

-- Start a child of a run. One that the parent may not wait for is refused.
CREATE OR REPLACE FUNCTION signoff.start_child(p_namespace text, p_parent_id text, p_new jsonb, p_now double precision)
RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    run signoff.runs;
    has_ended boolean;
    circle text[];
    new_n constant integer := (p_new ->> 'parent_n')::integer;
BEGIN
    IF signoff.create_row(p_namespace, p_new, NULL, p_now) OR new_n IS NULL THEN
        RETURN '{}';
    END IF;
    -- Locked: if it ends from now on, it sees that we wait.
    SELECT * INTO run FROM signoff.runs WHERE id = p_new ->> 'id' AND namespace = p_namespace FOR SHARE;
    IF NOT FOUND THEN  -- it was deleted just now
        RETURN signoff.start_child(p_namespace, p_parent_id, p_new, p_now);
    END IF;
    IF run.parent_id = p_parent_id AND run.parent_n = new_n THEN
        RETURN '{}';
    END IF;
    IF run.workflow <> p_new ->> 'workflow' OR run.arguments_digest <> p_new ->> 'arguments_digest'
        OR run.session_id IS DISTINCT FROM p_new ->> 'session_id' THEN
        RETURN signoff.refuse(p_namespace, p_parent_id, new_n, run.id, 'failed', p_new ->> 'conflict', p_now);
    END IF;
    has_ended := run.ended_at IS NOT NULL AND NOT run.retryable;
    -- Our row is locked: nobody can come to wait for us meanwhile. Of those that would close one circle from several
    -- sides at once, the later sees the earlier.
    IF NOT has_ended AND (p_parent_id = run.id OR signoff.is_waited_for(p_namespace, p_parent_id)) THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('circles ' || p_namespace, 0));
        circle := signoff.circle_of(p_namespace, p_parent_id, run.id);
        IF circle IS NOT NULL THEN
            RETURN signoff.refuse(
                p_namespace, p_parent_id, new_n, run.id, 'failed', signoff.circular_wait(circle), p_now
            );
        END IF;
    END IF;
    INSERT INTO signoff.waiters (shard, namespace, target, target_id, run_id, n)
    VALUES (run.id, p_namespace, 'run', run.id, p_parent_id, new_n)
    ON CONFLICT DO NOTHING;
    IF FOUND AND has_ended THEN
        RETURN signoff.tell_end(
            p_namespace, p_parent_id, new_n, run.id, run.state, run.result, run.error, p_now
        );
    END IF;
    RETURN '{}';
END $$;

-- Cancel a child of a run; later, if its row cannot be changed.
CREATE OR REPLACE FUNCTION signoff.cancel_or_defer(
    p_namespace text, p_run_id text, p_by text, p_error text, p_now double precision
) RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
    RETURN signoff.cancel(p_namespace, p_run_id, NULL, p_by, p_error, p_now);
EXCEPTION WHEN OTHERS THEN
    IF NOT signoff.is_of_row(SQLSTATE) THEN
        RAISE;
    END IF;
    PERFORM signoff.defer('cancel', p_namespace, p_run_id, -1, jsonb_build_object('by', p_by, 'error', p_error));
    RETURN '{"woken": [], "ended": false}';
END $$;

-- Cancel children of a run: {"id", "error"} of each. Those whose rows cannot be changed are cancelled later.
CREATE OR REPLACE FUNCTION signoff.cancel_children(
    p_namespace text, p_parent_id text, p_children jsonb, p_now double precision, OUT woken text[], OUT ended jsonb
)
LANGUAGE plpgsql AS $$
DECLARE
    v_by constant text := 'run:' || p_parent_id;
    child jsonb;
    cancelled jsonb;
BEGIN
    woken := '{}';
    ended := '[]';
    IF jsonb_array_length(p_children) > 1 THEN
        BEGIN
            FOR child IN SELECT value FROM jsonb_array_elements(p_children) LOOP
                cancelled := signoff.cancel(
                    p_namespace, child ->> 'id', NULL, v_by, child ->> 'error', p_now
                );
                woken := woken || ARRAY(SELECT jsonb_array_elements_text(cancelled -> 'woken'));
                IF (cancelled -> 'ended')::boolean THEN
                    ended := ended || (child -> 'id');
                END IF;
            END LOOP;
            RETURN;
        EXCEPTION WHEN OTHERS THEN
            IF NOT signoff.is_of_row(SQLSTATE) THEN
                RAISE;
            END IF;
            woken := '{}';
            ended := '[]';
        END;
    END IF;
    FOR child IN SELECT value FROM jsonb_array_elements(p_children) LOOP
        cancelled := signoff.cancel_or_defer(p_namespace, child ->> 'id', v_by, child ->> 'error', p_now);
        woken := woken || ARRAY(SELECT jsonb_array_elements_text(cancelled -> 'woken'));
        IF (cancelled -> 'ended')::boolean THEN
            ended := ended || (child -> 'id');
        END IF;
    END LOOP;
END $$;

-- Cancel the children of a run that it gives up, {"id", "error"} of each, and let go of the runs of others that it joined.
CREATE OR REPLACE FUNCTION signoff.give_up(
    p_namespace text, p_parent_id text, p_runs jsonb, p_now double precision
) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    given_up jsonb;
    owner text;
    own jsonb := '[]';
BEGIN
    FOR given_up IN SELECT value FROM jsonb_array_elements(p_runs) LOOP
        SELECT parent_id INTO owner FROM signoff.runs WHERE id = given_up ->> 'id' AND namespace = p_namespace;
        IF NOT FOUND THEN
            CONTINUE;
        ELSIF owner = p_parent_id THEN
            own := own || jsonb_build_array(given_up);
        ELSE
            DELETE FROM signoff.waiters
            WHERE shard = given_up ->> 'id' AND namespace = p_namespace AND target = 'run'
                AND target_id = given_up ->> 'id' AND run_id = p_parent_id;
        END IF;
    END LOOP;
    RETURN (signoff.cancel_children(p_namespace, p_parent_id, own, p_now)).woken;
END $$;

-- As ``circle_of`` in stores/shared/wait_cycles.py: the circle that would close if a run came to wait for another.
CREATE OR REPLACE FUNCTION signoff.circle_of(p_namespace text, p_waiter text, p_target text) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    queue text[] := ARRAY[p_waiter];
    waits jsonb := '{}';
    looked_at integer := 1;
    other text;
    circle text[] := ARRAY[p_waiter];
BEGIN
    IF p_waiter = p_target THEN
        RETURN ARRAY[p_waiter, p_waiter];
    END IF;
    WHILE looked_at <= cardinality(queue) AND cardinality(queue) <= 2000 LOOP
        FOR other IN
            SELECT runs.id
            FROM (
                SELECT parent_id AS id FROM signoff.runs
                WHERE id = queue[looked_at] AND namespace = p_namespace
                    AND parent_id IS NOT NULL AND parent_n IS NOT NULL
                UNION
                SELECT run_id FROM signoff.waiters
                WHERE shard = queue[looked_at] AND namespace = p_namespace AND target = 'run'
                    AND target_id = queue[looked_at]
            ) AS waiting
            JOIN signoff.runs ON runs.id = waiting.id AND runs.namespace = p_namespace
            WHERE runs.ended_at IS NULL OR runs.retryable
            ORDER BY runs.id
        LOOP
            CONTINUE WHEN other = p_waiter OR waits ? other;
            waits := waits || jsonb_build_object(other, queue[looked_at]);
            queue := queue || other;
            IF other = p_target THEN
                WHILE other <> p_waiter LOOP
                    circle := circle || other;
                    other := waits ->> other;
                END LOOP;
                RETURN circle || p_waiter;
            END IF;
        END LOOP;
        looked_at := looked_at + 1;
    END LOOP;
    RETURN NULL;
END $$;

-- Whether any run waits for a run, as its parent or because it has joined it.
CREATE OR REPLACE FUNCTION signoff.is_waited_for(p_namespace text, p_run_id text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM signoff.runs
        WHERE id = p_run_id AND namespace = p_namespace AND parent_id IS NOT NULL AND parent_n IS NOT NULL
    ) OR EXISTS (
        SELECT FROM signoff.waiters
        WHERE shard = p_run_id AND namespace = p_namespace AND target = 'run' AND target_id = p_run_id
    );
END $$;

-- The error CircularWait, as the codec writes it.
CREATE OR REPLACE FUNCTION signoff.circular_wait(p_circle text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    others constant text[] := p_circle[2:cardinality(p_circle) - 1];
    message text;
BEGIN
    message := 'run ''' || p_circle[1] || ''' ' || CASE
        WHEN cardinality(others) = 0 THEN 'would wait for itself'
        ELSE 'would wait for run ''' || array_to_string(others || p_circle[1], ''', which waits for run ''')
            || ''': none of them could go on'
    END || '; wait for another run, or choose another id for the child run';
    RETURN jsonb_build_object(
        'type', 'signoff.errors:CircularWait',
        'message', message,
        'attributes', jsonb_build_object('circle', to_jsonb(p_circle)),
        'cause', NULL,
        'notes', '[]'::jsonb,
        'members', '[]'::jsonb,
        'args', jsonb_build_array(message),
        'dropped', '[]'::jsonb,
        'rebuildable', true,
        'bases', jsonb_build_array(
            'signoff.errors:RegistrationError', 'signoff.errors:SignoffError', 'builtins:ValueError',
            'builtins:Exception'
        ),
        'found', true,
        'traceback', 'signoff.errors.CircularWait: ' || message || E'\n'
    )::text;
END $$;
