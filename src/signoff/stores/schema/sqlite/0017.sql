-- The time that all processes of this host go by, counted on clocks that nobody sets. One row; see stores/sqlite/clock.py.

CREATE TABLE clock (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    boot TEXT NOT NULL,             -- what the machine's clocks count from
    ahead REAL NOT NULL,            -- unix time, minus the time since boot with suspensions
    slow_from REAL NOT NULL,        -- time since boot, when the clock began to go slowly
    slow_time REAL NOT NULL,        -- unix time then
    lease_ahead REAL NOT NULL       -- lease time, minus the time since boot without suspensions
);
