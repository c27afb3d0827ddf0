-- How functions plan their statements.

-- Have a function, and all functions that it calls, find rows by an index. Each of their statements has one; plans are made
-- once for a connection, when a table may still be empty, and must be the right ones for a table that is large. The calls
-- are done when all functions are created.
CREATE OR REPLACE PROCEDURE signoff.plan_by_index(p_function regproc)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(
        'ALTER FUNCTION %s'
        ' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off'
        ' SET jit = off SET plan_cache_mode = force_generic_plan',
        p_function
    );
END $$;
