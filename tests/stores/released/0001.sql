BEGIN TRANSACTION;
CREATE TABLE journal (
    namespace TEXT NOT NULL,
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    n INTEGER,
    call TEXT,
    name TEXT,
    value TEXT,
    error TEXT,
    details TEXT,
    PRIMARY KEY (namespace, run_id, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO "journal" VALUES('default','asked',0,1780000000.0,'started',NULL,NULL,NULL,NULL,NULL,'{"version":"1"}');
INSERT INTO "journal" VALUES('default','asked',1,1780000000.0,'completed',1,'step','fetch','"fetch o-1"',NULL,NULL);
INSERT INTO "journal" VALUES('default','asked',2,1780000000.0,'opened',2,'question','Pay o-1?','{"text":"Pay o-1?","input_type":"approval","answer_schema":{"type":"object","properties":{"approved":{"type":"boolean"}},"required":["approved"],"additionalProperties":false},"options":[],"metadata":{},"skippable":false,"digest":"75025ea7543003abfe18f1ccffd74b2b526378a15bc5b7b697ca273fd3f4cd51"}',NULL,'{"id":"asked.2","due_at":null}');
INSERT INTO "journal" VALUES('default','asleep',0,1780000000.0,'started',NULL,NULL,NULL,NULL,NULL,'{"version":"1"}');
INSERT INTO "journal" VALUES('default','asleep',1,1780000000.0,'completed',1,'step','before','"before"',NULL,NULL);
INSERT INTO "journal" VALUES('default','asleep',2,1780000000.0,'opened',2,'timer','',NULL,NULL,'{"due_at":1780003600.0}');
INSERT INTO "journal" VALUES('default','parent',0,1780000000.0,'started',NULL,NULL,NULL,NULL,NULL,'{"version":"1"}');
INSERT INTO "journal" VALUES('default','parent',1,1780000000.0,'opened',1,'child','child','{"args":[],"kwargs":{}}',NULL,'{"id":"parent.1"}');
INSERT INTO "journal" VALUES('default','parent.1',0,1780000000.0,'started',NULL,NULL,NULL,NULL,NULL,'{"version":"1"}');
INSERT INTO "journal" VALUES('default','parent.1',1,1780000000.0,'opened',1,'signal','go',NULL,NULL,'{"due_at":null}');
CREATE TABLE messages (
    namespace TEXT NOT NULL,
    run_id TEXT NOT NULL,
    id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at REAL NOT NULL,
    n INTEGER,
    name TEXT,
    state TEXT,
    value TEXT,
    error TEXT,
    "by" TEXT,
    note TEXT,
    PRIMARY KEY (namespace, run_id, id)
) STRICT, WITHOUT ROWID;
INSERT INTO "messages" VALUES('default','never-started',1,'signal',1780000000.0,NULL,'unused',NULL,'1',NULL,NULL,NULL);
CREATE TABLE promises (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'resolved', 'rejected', 'cancelled', 'timed_out')),
    created_at REAL NOT NULL,
    run_id TEXT,
    n INTEGER,
    due_at REAL,
    settled_at REAL,
    settled_by TEXT,
    note TEXT,
    request_id TEXT,
    data TEXT,
    value TEXT
) STRICT;
INSERT INTO "promises" VALUES(1,'default','asked.2','question','pending',1780000000.0,'asked',2,NULL,NULL,NULL,NULL,NULL,'{"text":"Pay o-1?","input_type":"approval","answer_schema":{"type":"object","properties":{"approved":{"type":"boolean"}},"required":["approved"],"additionalProperties":false},"options":[],"metadata":{},"skippable":false,"digest":"75025ea7543003abfe18f1ccffd74b2b526378a15bc5b7b697ca273fd3f4cd51"}',NULL);
INSERT INTO "promises" VALUES(2,'default','p','promise','pending',1780000000.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE requests (
    namespace TEXT NOT NULL,
    run_id TEXT NOT NULL,
    request_id TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (namespace, run_id, request_id)
) STRICT, WITHOUT ROWID;
INSERT INTO "requests" VALUES('default','never-started','q','unused','1');
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    workflow TEXT NOT NULL,
    group_name TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('ready', 'running', 'paused', 'succeeded', 'failed', 'cancelled')),
    created_at REAL NOT NULL,
    parent_id TEXT,
    parent_n INTEGER,
    deadline_at REAL,
    deadline_passed INTEGER NOT NULL DEFAULT 0,
    ended_at REAL,
    retryable INTEGER NOT NULL DEFAULT 0,
    epoch INTEGER NOT NULL DEFAULT 0,
    wakes INTEGER NOT NULL DEFAULT 0,
    cancel_asked INTEGER NOT NULL DEFAULT 0,
    ready_at REAL NOT NULL,
    wake_at REAL,
    worker_id TEXT,
    lease_until REAL,
    first_seq INTEGER NOT NULL DEFAULT 0,
    arguments TEXT NOT NULL,
    result TEXT,
    error TEXT
) STRICT;
INSERT INTO "runs" VALUES(1,'default','asked','order','default','paused',1780000000.0,NULL,NULL,NULL,0,NULL,0,1,0,0,1780000000.0,NULL,NULL,NULL,0,'{"args":["o-1"],"kwargs":{}}',NULL,NULL);
INSERT INTO "runs" VALUES(2,'default','asleep','sleeper','default','paused',1780000000.0,NULL,NULL,NULL,0,NULL,0,1,0,0,1780000000.0,1780003600.0,NULL,NULL,0,'{"args":[],"kwargs":{}}',NULL,NULL);
INSERT INTO "runs" VALUES(3,'default','parent','parent','default','paused',1780000000.0,NULL,NULL,NULL,0,NULL,0,1,0,0,1780000000.0,NULL,NULL,NULL,0,'{"args":[],"kwargs":{}}',NULL,NULL);
INSERT INTO "runs" VALUES(4,'default','parent.1','child','default','paused',1780000000.0,'parent',1,NULL,0,NULL,0,1,0,0,1780000000.0,NULL,NULL,NULL,0,'{"args":[],"kwargs":{}}',NULL,NULL);
INSERT INTO "runs" VALUES(5,'default','never-started','order','default','ready',1780000000.0,NULL,NULL,1780086400.0,0,NULL,0,0,1,0,1780000000.0,NULL,NULL,NULL,0,'{"args":["o-2"],"kwargs":{}}',NULL,NULL);
INSERT INTO "runs" VALUES(6,'default','lost','order','default','running',1780000000.0,NULL,NULL,NULL,0,NULL,0,1,0,0,1780000000.0,NULL,'elsewhere:1:0',1780000010.0,0,'{"args":["o-3"],"kwargs":{}}',NULL,NULL);
CREATE TABLE waiters (
    namespace TEXT NOT NULL,
    target TEXT NOT NULL CHECK (target IN ('promise', 'run')),
    target_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (namespace, target, target_id, run_id, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    process_started_at REAL NOT NULL,
    group_name TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "workers" VALUES('elsewhere:1:0','elsewhere',1,1.0,'default');
CREATE UNIQUE INDEX runs_by_id ON runs (namespace, id);
CREATE INDEX runs_by_state ON runs (namespace, state);
CREATE INDEX runs_by_workflow ON runs (namespace, workflow, state);
CREATE INDEX runs_by_group ON runs (namespace, group_name, state);
CREATE INDEX runs_by_parent ON runs (namespace, parent_id, state) WHERE parent_id IS NOT NULL;
CREATE INDEX runs_ready ON runs (namespace, group_name, workflow, ready_at) WHERE state = 'ready';
CREATE INDEX runs_leases ON runs (lease_until) WHERE state = 'running';
CREATE INDEX runs_held ON runs (worker_id) WHERE state = 'running';
CREATE INDEX runs_timers ON runs (wake_at) WHERE state = 'paused' AND wake_at IS NOT NULL;
CREATE INDEX runs_deadlines ON runs (deadline_at)
    WHERE deadline_at IS NOT NULL AND deadline_passed = 0 AND ended_at IS NULL;
CREATE UNIQUE INDEX promises_by_id ON promises (namespace, id);
CREATE INDEX promises_by_state ON promises (namespace, state, kind);
CREATE INDEX promises_by_run ON promises (namespace, run_id, state) WHERE run_id IS NOT NULL;
CREATE INDEX promises_due ON promises (due_at) WHERE state = 'pending' AND due_at IS NOT NULL;
COMMIT;
PRAGMA application_id = 1365732975;
PRAGMA user_version = 1;
