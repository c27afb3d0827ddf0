-- Ids of calls, by which a call that is repeated is known, and the tenant of a worker.

ALTER TABLE runs ADD COLUMN create_token TEXT;
ALTER TABLE runs ADD COLUMN claim_token TEXT;
ALTER TABLE promises ADD COLUMN create_token TEXT;
ALTER TABLE promises ADD COLUMN settle_token TEXT;
ALTER TABLE requests ADD COLUMN token TEXT;
ALTER TABLE workers ADD COLUMN namespace TEXT NOT NULL DEFAULT 'default';

CREATE INDEX runs_claims ON runs (claim_token) WHERE state = 'running' AND claim_token IS NOT NULL;
