-- Tokens: secrets that stand for somebody or something. Only their hashes are kept.

CREATE TABLE tokens (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,  -- looked up before the namespace is known
    subject TEXT NOT NULL,
    created_at REAL NOT NULL,
    question_id TEXT,
    data TEXT,  -- JSON
    label TEXT,
    created_by TEXT,
    expires_at REAL,
    revoked_at REAL,
    used_at REAL,
    ended_at REAL AS (min(coalesce(expires_at, revoked_at), coalesce(revoked_at, expires_at))),
    UNIQUE (namespace, id)
) STRICT;

CREATE INDEX tokens_by_kind ON tokens (namespace, kind);
CREATE INDEX tokens_by_subject ON tokens (namespace, kind, subject);
CREATE INDEX tokens_by_question ON tokens (namespace, kind, question_id) WHERE question_id IS NOT NULL;
CREATE INDEX tokens_ended ON tokens (namespace, ended_at) WHERE ended_at IS NOT NULL;
