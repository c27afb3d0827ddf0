-- Rules: what people have approved in their name for some time.

CREATE TABLE rules (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    created_at REAL NOT NULL,
    by TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,  -- JSON
    expires_at REAL NOT NULL,
    question_id TEXT NOT NULL,
    run_id TEXT,
    groups TEXT NOT NULL,  -- JSON
    roles TEXT NOT NULL,  -- JSON
    max_uses INTEGER,
    uses INTEGER NOT NULL DEFAULT 0,
    revoked_at REAL,
    revoked_by TEXT,
    UNIQUE (namespace, id)
) STRICT;

CREATE INDEX rules_by_namespace ON rules (namespace);
CREATE INDEX rules_by_maker ON rules (namespace, by);
CREATE INDEX rules_in_force ON rules (namespace, expires_at) WHERE revoked_at IS NULL;
