-- A run that would wait for a run which waits for it is refused: neither could go on.

-- As ``circle_of`` in stores/shared/wait_cycles.py: the circle that would close if a run came to wait for another.
CREATE FUNCTION signoff.circle_of(p_namespace text, p_waiter text, p_target text) RETURNS text[]
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
CREATE FUNCTION signoff.is_waited_for(p_namespace text, p_run_id text) RETURNS boolean
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
CREATE FUNCTION signoff.circular_wait(p_circle text[]) RETURNS text
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

-- A child that the parent may not wait for is refused; the rest as in 0015_sessions.sql.
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
