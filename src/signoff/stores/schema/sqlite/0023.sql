-- Leases that had run out by `but_until` have been held for long enough, and are freed. So the count goes on for those that
-- ran out later, also if one can never be freed.

ALTER TABLE held_leases ADD COLUMN but_until REAL;
