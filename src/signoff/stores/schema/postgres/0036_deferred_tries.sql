-- When a deferred change is tried again, and how often it has failed: kept here, so that no process tries it before its
-- time, however many changes fail. Times are in unix seconds.
ALTER TABLE signoff.deferred
    ADD COLUMN next_at double precision NOT NULL DEFAULT 0,
    ADD COLUMN failures integer NOT NULL DEFAULT 0,
    ADD COLUMN first_at double precision,
    ADD COLUMN code text,
    ADD COLUMN error text;
DROP INDEX signoff.deferred_by_number;
CREATE INDEX deferred_next ON signoff.deferred (next_at, number);
CREATE INDEX deferred_failed ON signoff.deferred (next_at, number) WHERE failures > 0;

DROP FUNCTION signoff.make_deferred_each(double precision, integer, jsonb);

-- Make deferred changes one by one whose time has come. One that fails is left alone for a second, then for two, four and
-- so on, up to `p_longest` seconds; one whose rows another process has locked, for a second. Returns {"made": [[namespace,
-- {"woken": ..., "ended": ...}], ...], "failures": [[namespace, id, failures, first_at, next_at, SQLSTATE, error], ...],
-- "is_all": ...}.
CREATE FUNCTION signoff.make_deferred_each(p_now double precision, p_limit integer, p_longest double precision)
RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_now constant double precision := coalesce(p_now, extract(epoch FROM clock_timestamp()));
    change signoff.deferred;
    touched jsonb;
    v_code text;
    v_error text;
    tried integer := 0;
    made jsonb := '[]';
    failures jsonb := '[]';
BEGIN
    FOR change IN
        SELECT * FROM signoff.deferred
        WHERE next_at <= v_now OR next_at > v_now + p_longest  -- the clock was set back
        ORDER BY next_at, number LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    LOOP
        tried := tried + 1;
        touched := NULL;
        v_code := NULL;
        BEGIN
            touched := signoff.make_deferred(change, v_now);
            IF touched IS NOT NULL THEN
                DELETE FROM signoff.deferred
                WHERE id = change.id AND namespace = change.namespace AND kind = change.kind AND n = change.n;
                IF NOT FOUND THEN
                    RAISE EXCEPTION 'the database has left its row as it was';
                END IF;
            END IF;
        EXCEPTION WHEN OTHERS THEN
            IF NOT signoff.is_of_row(SQLSTATE) THEN
                RAISE;
            END IF;
            v_code := SQLSTATE;
            v_error := left(SQLERRM, 2000);
        END;
        IF v_code IS NOT NULL THEN
            change.next_at := v_now + least(power(2, least(change.failures, 20)), p_longest);
            change.failures := change.failures + 1;
            change.first_at := coalesce(change.first_at, v_now);
            UPDATE signoff.deferred
            SET failures = change.failures, first_at = change.first_at, next_at = change.next_at, code = v_code,
                error = v_error
            WHERE id = change.id AND namespace = change.namespace AND kind = change.kind AND n = change.n;
            failures := failures || jsonb_build_array(jsonb_build_array(
                change.namespace, change.id, change.failures, change.first_at, change.next_at, v_code, v_error
            ));
        ELSIF touched IS NULL THEN
            UPDATE signoff.deferred SET next_at = v_now + 1
            WHERE id = change.id AND namespace = change.namespace AND kind = change.kind AND n = change.n;
        ELSE
            made := made || jsonb_build_array(jsonb_build_array(change.namespace, touched));
        END IF;
    END LOOP;
    RETURN jsonb_build_object('made', made, 'failures', failures, 'is_all', tried < p_limit);
END $$;
CALL signoff.plan_by_index('signoff.make_deferred_each');

-- Of deferred changes: when the first is tried, and when the last is. NULL without one.
CREATE FUNCTION signoff.deferred_times(OUT first_at double precision, OUT last_at double precision)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT next_at INTO first_at FROM signoff.deferred ORDER BY next_at LIMIT 1;
    SELECT next_at INTO last_at FROM signoff.deferred ORDER BY next_at DESC LIMIT 1;
END $$;
CALL signoff.plan_by_index('signoff.deferred_times');
