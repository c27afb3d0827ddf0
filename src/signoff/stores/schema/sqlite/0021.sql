-- Changes of runs that follow from changes of other runs, and that the database refused to make: a next turn of a session
-- (`id` is the session's), a run that may have a slot, a run to cancel, a message to call `n` of a run that joined what
-- was settled. They are made later, alone.

CREATE TABLE deferred (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    n INTEGER NOT NULL,
    details TEXT,
    UNIQUE (namespace, id, kind, n)
) STRICT;
