-- Tokens: secrets that stand for a user, a question or a callback. Only their hashes are kept.

-- Tokens of a kind in the order in which they were made: a question's, a subject's, or all.
CREATE OR REPLACE FUNCTION signoff.list_tokens(
    p_namespace text, p_kind text, p_subject text, p_question_id text, p_after bigint, p_limit integer
) RETURNS SETOF signoff.tokens
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_question_id IS NOT NULL THEN
        RETURN QUERY
            SELECT * FROM signoff.tokens
            WHERE namespace = p_namespace AND kind = p_kind AND question_id = p_question_id
                AND (p_subject IS NULL OR subject = p_subject) AND number > p_after
            ORDER BY number LIMIT p_limit;
    ELSIF p_subject IS NOT NULL THEN
        RETURN QUERY
            SELECT * FROM signoff.tokens
            WHERE namespace = p_namespace AND kind = p_kind AND subject = p_subject AND number > p_after
            ORDER BY number LIMIT p_limit;
    ELSE
        RETURN QUERY
            SELECT * FROM signoff.tokens
            WHERE namespace = p_namespace AND kind || '' = p_kind AND number > p_after
            ORDER BY number LIMIT p_limit;
    END IF;
END $$;
CALL signoff.plan_by_index('signoff.list_tokens');

-- Delete tokens that ended before a time, the earliest first. Those that another process deletes just now are left to it.
CREATE OR REPLACE FUNCTION signoff.delete_tokens(p_namespace text, p_before double precision, p_limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    v_id text;
    v_deleted integer := 0;
BEGIN
    FOR v_id IN
        SELECT id FROM signoff.tokens
        WHERE namespace = p_namespace AND ended_at < p_before AND ended_at IS NOT NULL
        ORDER BY ended_at LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    LOOP
        DELETE FROM signoff.tokens WHERE namespace = p_namespace AND id = v_id;
        v_deleted := v_deleted + FOUND::integer;
    END LOOP;
    RETURN v_deleted;
END $$;
CALL signoff.plan_by_index('signoff.delete_tokens');
