-- Priorities and delayed starts.

ALTER TABLE runs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN start_at REAL;

DROP INDEX runs_ready;
CREATE INDEX runs_ready ON runs (namespace, group_name, workflow, priority DESC, ready_at) WHERE state = 'ready';
