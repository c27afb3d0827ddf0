-- While leases are held after an outage: those that had run out by `before` have been held for `served` seconds in which
-- the store could be written, counted until `at`. Times are those of the lease clock. Kept here, so that processes that
-- begin anew again and again free them in the end. One row at most.

CREATE TABLE held_leases (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    before REAL NOT NULL,
    served REAL NOT NULL,
    at REAL NOT NULL
) STRICT;
