-- Callbacks: questions that are answered from elsewhere, by a secret of which the hash is kept as a token.

-- Create a promise, with the token of its callback. Returns nothing if the id is taken.
CREATE OR REPLACE FUNCTION signoff.create_promise_row(
    p_namespace text, p_run_id text, p_new jsonb, p_token text, p_now double precision
) RETURNS SETOF signoff.promises
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        INSERT INTO signoff.promises (
            shard, namespace, id, kind, state, created_at, run_id, n, due_at, data, create_token, assignees, act_at
        )
        SELECT signoff.shard_of(id), p_namespace, id, kind, 'pending', p_now, p_run_id,
            CASE WHEN p_run_id IS NOT NULL THEN n END, due_at, data, p_token,
            coalesce(assignees, '{}'), act_at
        FROM jsonb_to_record(p_new) AS new (
            id text, kind text, n integer, due_at double precision, data text, assignees text[],
            act_at double precision
        )
        ON CONFLICT (shard, namespace, id) DO NOTHING
        RETURNING *;
    IF FOUND AND p_new ? 'callback' THEN
        INSERT INTO signoff.tokens (namespace, id, kind, hash, subject, created_at, question_id)
        SELECT p_namespace, id, 'callback', hash, subject, p_now, p_new ->> 'id'
        FROM jsonb_to_record(p_new -> 'callback') AS callback (id text, hash text, subject text)
        ON CONFLICT DO NOTHING;
    END IF;
END $$;

-- Delete a run with everything that is its own.
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
    DELETE FROM signoff.requests WHERE run_id = p_run.id AND namespace = p_run.namespace;
    DELETE FROM signoff.runs WHERE id = p_run.id AND namespace = p_run.namespace;
END $$;
