-- Large values, each stored by itself and perhaps compressed, so that what changes in a run's row does not write its
-- arguments again. In its own column is '', which is no JSON. `seq` is that of the journal's entry; -1 for the run's
-- arguments, -2 for its result. `bytes` is the length of the text. The first byte of `value` says how the rest is stored.

CREATE TABLE large_values (
    namespace TEXT NOT NULL,
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (namespace, run_id, seq)
) STRICT;
