-- Rules for a session. One without a time of its own expires at infinity.

ALTER TABLE rules ADD COLUMN session_id TEXT;

CREATE INDEX rules_of_session ON rules (namespace, coalesce(session_id, ''), expires_at) WHERE revoked_at IS NULL;
