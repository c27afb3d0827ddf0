-- Runs that have lost workers again and again without progress are claimed apart from others: see stores/shared/suspect_runs.py.

DROP INDEX runs_ready_again;
CREATE INDEX runs_ready_again ON runs (namespace, group_name, workflow, priority DESC, ready_at)
    WHERE state = 'ready' AND epoch > 0 AND takeovers < 2 AND blocked = 0;
CREATE INDEX runs_ready_suspect ON runs (namespace, group_name, workflow, min(takeovers, 4), priority DESC, ready_at)
    WHERE state = 'ready' AND takeovers >= 2 AND blocked = 0;
CREATE INDEX runs_held_suspects ON runs (worker_id) WHERE state = 'running' AND takeovers >= 2;
