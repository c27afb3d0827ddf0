-- Leases that had run out by `but_until` have been held for long enough, and are freed. So the count goes on for those that
-- ran out later, also if one can never be freed.
ALTER TABLE signoff.held_leases ADD COLUMN but_until double precision;

-- As in 0031_held_leases.sql.
CREATE OR REPLACE FUNCTION signoff.hold_leases(
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
        UPDATE signoff.held_leases SET before = v_now, served = 0, at = v_now, but_until = NULL;
        RETURN NULL;
    END IF;
    -- Several processes may count the same time.
    held.served := held.served + least(p_served, greatest(0, v_now - held.at));
    IF held.but_until > v_now THEN
        held.but_until := v_now;  -- the clock was set back
    END IF;
    IF held.served >= p_lease_seconds THEN
        held.but_until := held.before;
        held.before := v_now;
        held.served := 0;
    END IF;
    UPDATE signoff.held_leases
    SET before = held.before, served = held.served, at = v_now, but_until = held.but_until;
    RETURN held.but_until;
END $$;
CALL signoff.plan_by_index('signoff.hold_leases');
