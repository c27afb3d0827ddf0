-- Request ids of answers, to know a repetition in the whole execution: a run, or all runs of its session.
-- ``name`` is the signal's name, or the promise that was answered; ``value`` is NULL for an answer.

CREATE TABLE all_requests (
    namespace TEXT NOT NULL,
    run_id TEXT NOT NULL,
    request_id TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT,
    token TEXT,
    session_id TEXT,
    PRIMARY KEY (namespace, run_id, request_id)
) STRICT, WITHOUT ROWID;

INSERT INTO all_requests (namespace, run_id, request_id, name, value, token)
SELECT namespace, run_id, request_id, name, value, token FROM requests;

DROP TABLE requests;
ALTER TABLE all_requests RENAME TO requests;

CREATE INDEX requests_of_session ON requests (namespace, session_id, request_id)
WHERE session_id IS NOT NULL AND value IS NULL;
