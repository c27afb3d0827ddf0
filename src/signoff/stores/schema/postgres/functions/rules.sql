-- Rules: what people have approved in their name for some time.

-- Make the rule that comes with an amendment. Returns whether its id was free.
CREATE OR REPLACE FUNCTION signoff.make_rule(p_namespace text, p_rule jsonb, p_now double precision) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.rules (
        namespace, id, created_at, by, tool, arguments, expires_at, question_id, run_id, groups, roles, max_uses,
        session_id
    )
    SELECT p_namespace, id, p_now, by, tool, arguments, coalesce(expires_at, 'infinity'), question_id, run_id, groups,
        roles, max_uses, session_id
    FROM jsonb_to_record(p_rule) AS new (
        id text, by text, tool text, arguments text, expires_at double precision, question_id text, run_id text,
        groups text[], roles text[], max_uses integer, session_id text
    )
    ON CONFLICT (id, namespace) DO NOTHING;
    RETURN FOUND;
END $$;

-- Have a rule be in force no more, and record that. Returns it as it is then, or null if there is none.
CREATE OR REPLACE FUNCTION signoff.revoke_rule(p_namespace text, p_id text, p_event jsonb, p_now double precision)
RETURNS signoff.rules
LANGUAGE plpgsql AS $$
DECLARE
    rule signoff.rules;
BEGIN
    SELECT * INTO rule FROM signoff.rules WHERE id = p_id AND namespace = p_namespace FOR NO KEY UPDATE;
    IF NOT FOUND OR rule.revoked_at IS NOT NULL THEN
        RETURN rule;
    END IF;
    UPDATE signoff.rules SET revoked_at = p_now, revoked_by = p_event ->> 'by'
    WHERE id = p_id AND namespace = p_namespace
    RETURNING * INTO rule;
    PERFORM signoff.record(p_namespace, jsonb_build_array(p_event), p_now);
    RETURN rule;
END $$;
CALL signoff.plan_by_index('signoff.revoke_rule');

-- Count a use of a rule. Returns whether it is in force. One that somebody else holds is not waited for: whoever does
-- may wait for what we hold.
CREATE OR REPLACE FUNCTION signoff.use_rule(p_namespace text, p_id text, p_now double precision) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    rule signoff.rules;
BEGIN
    SELECT * INTO rule FROM signoff.rules WHERE id = p_id AND namespace = p_namespace
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND OR rule.revoked_at IS NOT NULL OR rule.expires_at <= p_now OR rule.uses >= rule.max_uses THEN
        RETURN false;
    END IF;
    UPDATE signoff.rules SET uses = uses + 1 WHERE id = p_id AND namespace = p_namespace;
    RETURN true;
END $$;

-- Rules in the order in which they were made; with p_by of one person, with p_in_force of these only such as are, with
-- p_session_id only such as are for it, or for none if it is empty.
CREATE OR REPLACE FUNCTION signoff.listed_rules(
    p_namespace text, p_by text, p_tool text, p_session_id text, p_in_force boolean, p_now double precision,
    p_after bigint, p_limit integer
) RETURNS SETOF signoff.rules
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_in_force AND p_session_id IS NOT NULL THEN
        RETURN QUERY
            SELECT * FROM (
                SELECT * FROM signoff.rules
                WHERE namespace || '' = p_namespace AND coalesce(session_id, '') = p_session_id
                    AND revoked_at IS NULL AND expires_at > p_now
                ORDER BY expires_at OFFSET 0  -- by that index: those of the past and of other sessions are far more
            ) AS rules
            WHERE (max_uses IS NULL OR uses < max_uses)
                AND (p_by IS NULL OR by = p_by) AND (p_tool IS NULL OR tool = p_tool) AND number > p_after
            ORDER BY number LIMIT p_limit;
    ELSIF p_in_force THEN
        RETURN QUERY
            SELECT * FROM (
                SELECT * FROM signoff.rules
                WHERE namespace || '' = p_namespace AND revoked_at IS NULL AND expires_at > p_now
                ORDER BY expires_at OFFSET 0  -- by that index: those of the past are far more
            ) AS rules
            WHERE (max_uses IS NULL OR uses < max_uses)
                AND (p_by IS NULL OR by = p_by) AND (p_tool IS NULL OR tool = p_tool) AND number > p_after
            ORDER BY number LIMIT p_limit;
    ELSIF p_by IS NOT NULL THEN
        RETURN QUERY
            SELECT * FROM signoff.rules
            WHERE namespace = p_namespace AND by = p_by AND (p_tool IS NULL OR tool = p_tool) AND number > p_after
                AND (p_session_id IS NULL OR coalesce(session_id, '') = p_session_id)
            ORDER BY number LIMIT p_limit;
    ELSE
        RETURN QUERY
            SELECT * FROM signoff.rules
            WHERE namespace || '' = p_namespace AND (p_tool IS NULL OR tool = p_tool) AND number > p_after
                AND (p_session_id IS NULL OR coalesce(session_id, '') = p_session_id)
            ORDER BY number LIMIT p_limit;
    END IF;
END $$;
CALL signoff.plan_by_index('signoff.listed_rules');
