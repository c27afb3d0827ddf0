-- The register of workflows: what workers run, and what it takes.

CREATE TABLE workflows (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    group_name TEXT NOT NULL,
    version TEXT NOT NULL,
    is_current INTEGER NOT NULL,
    description TEXT,
    parameters TEXT,  -- JSON
    seen_at REAL NOT NULL,
    PRIMARY KEY (namespace, name, group_name, version)
) STRICT;
