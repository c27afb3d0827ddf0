-- While leases are held after an outage: those that had run out by `before` have been held for `served` seconds in which
-- the store could be written, counted until `at`. Times are those of leases. Kept here, so that processes that begin
-- anew again and again free them in the end. One row at most.
CREATE TABLE signoff.held_leases (
    one integer PRIMARY KEY CHECK (one = 1),
    before double precision NOT NULL,
    served double precision NOT NULL,
    at double precision NOT NULL
);

-- Count `p_served` seconds more. Returns until when leases must have run out to be freed all the same; NULL: none is.
CREATE FUNCTION signoff.hold_leases(
    p_lease_now double precision, p_served double precision, p_lease_seconds double precision
) RETURNS double precision
LANGUAGE plpgsql AS $$
DECLARE
    v_now constant double precision := coalesce(p_lease_now, extract(epoch FROM clock_timestamp()));
    held signoff.held_leases;
BEGIN
    IF NOT EXISTS (SELECT FROM signoff.runs WHERE state = 'running' AND lease_until <= v_now) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO held FROM signoff.held_leases FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        INSERT INTO signoff.held_leases VALUES (1, v_now, 0, v_now) ON CONFLICT DO NOTHING;
        RETURN NULL;
    END IF;
    held.before := least(held.before, v_now);
    IF NOT EXISTS (SELECT FROM signoff.runs WHERE state = 'running' AND lease_until <= held.before) THEN
        UPDATE signoff.held_leases SET before = v_now, served = 0, at = v_now;
        RETURN NULL;
    END IF;
    -- Several processes may count the same time.
    held.served := held.served + least(p_served, greatest(0, v_now - held.at));
    UPDATE signoff.held_leases SET before = held.before, served = held.served, at = v_now;
    RETURN CASE WHEN held.served >= p_lease_seconds THEN held.before END;
END $$;
CALL signoff.plan_by_index('signoff.hold_leases');
