-- Questions: who may answer them, when their policies have something to do, and what these keep.

ALTER TABLE runs ADD COLUMN started_by TEXT;

ALTER TABLE promises ADD COLUMN assignees TEXT NOT NULL DEFAULT '[]';  -- JSON
ALTER TABLE promises ADD COLUMN act_at REAL;
ALTER TABLE promises ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE promises ADD COLUMN progress TEXT;  -- JSON

CREATE INDEX promises_to_act ON promises (act_at)
WHERE kind = 'question' AND state = 'pending' AND act_at IS NOT NULL;

-- The ids of calls that amended, to know a repetition.
CREATE TABLE amendments (
    number INTEGER NOT NULL,  -- of the promise
    token TEXT NOT NULL,
    PRIMARY KEY (number, token)
) STRICT, WITHOUT ROWID;

-- Who may answer which pending question: '' is anybody.
CREATE TABLE inbox (
    namespace TEXT NOT NULL,
    assignee TEXT NOT NULL,
    number INTEGER NOT NULL,  -- of the promise
    PRIMARY KEY (namespace, assignee, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX inbox_by_number ON inbox (number);

-- The audit trail. Rows are added and never changed; `unsealed` are those that have no place in the chain yet.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    question_id TEXT NOT NULL,
    run_id TEXT,
    by TEXT,
    details TEXT,
    UNIQUE (namespace, id)
) STRICT;

CREATE INDEX audit_by_question ON audit (namespace, question_id);
CREATE INDEX audit_by_run ON audit (namespace, run_id) WHERE run_id IS NOT NULL;
CREATE INDEX audit_by_namespace ON audit (namespace);

CREATE TABLE unsealed (
    number INTEGER PRIMARY KEY  -- of the event
) STRICT;

CREATE TABLE seals (
    namespace TEXT NOT NULL,
    seq INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (namespace, seq),
    UNIQUE (namespace, event_id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN
    SELECT raise(ABORT, 'audit events are not changed');
END;

CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
BEGIN
    SELECT raise(ABORT, 'audit events are not deleted');
END;

-- INSERT OR REPLACE deletes without a word to the trigger above.
CREATE TRIGGER audit_is_not_replaced BEFORE INSERT ON audit
WHEN EXISTS (SELECT 1 FROM audit WHERE number = NEW.number)
    OR EXISTS (SELECT 1 FROM audit WHERE namespace = NEW.namespace AND id = NEW.id)
BEGIN
    SELECT raise(ABORT, 'audit events are not changed');
END;

CREATE TRIGGER seals_are_not_changed BEFORE UPDATE ON seals
BEGIN
    SELECT raise(ABORT, 'seals of audit events are not changed');
END;

CREATE TRIGGER seals_are_not_deleted BEFORE DELETE ON seals
BEGIN
    SELECT raise(ABORT, 'seals of audit events are not deleted');
END;

CREATE TRIGGER seals_are_not_replaced BEFORE INSERT ON seals
WHEN EXISTS (SELECT 1 FROM seals WHERE namespace = NEW.namespace AND seq = NEW.seq)
    OR EXISTS (SELECT 1 FROM seals WHERE namespace = NEW.namespace AND event_id = NEW.event_id)
BEGIN
    SELECT raise(ABORT, 'seals of audit events are not changed');
END;

CREATE TRIGGER audit_waits_for_its_seal AFTER INSERT ON audit
BEGIN
    INSERT INTO unsealed VALUES (NEW.number);
END;

-- Whatever asks a question or settles it, is recorded with it, and moves it into and out of inboxes.
CREATE TRIGGER question_is_asked AFTER INSERT ON promises WHEN NEW.kind = 'question' AND NEW.state = 'pending'
BEGIN
    INSERT INTO inbox SELECT DISTINCT NEW.namespace, value, NEW.number FROM json_each(NEW.assignees);
    INSERT INTO inbox SELECT NEW.namespace, '', NEW.number WHERE NEW.assignees = '[]';
    INSERT INTO audit (namespace, id, at, kind, question_id, run_id, details)
    VALUES (
        NEW.namespace, lower(hex(randomblob(16))), NEW.created_at, 'asked', NEW.id, NEW.run_id,
        json_object('data', NEW.data, 'assignees', json(NEW.assignees), 'due_at', NEW.due_at)
    );
END;

CREATE TRIGGER question_is_settled AFTER UPDATE OF state ON promises
WHEN NEW.kind = 'question' AND OLD.state = 'pending' AND NEW.state <> 'pending'
BEGIN
    DELETE FROM inbox WHERE number = NEW.number;
    INSERT INTO audit (namespace, id, at, kind, question_id, run_id, by, details)
    VALUES (
        NEW.namespace, lower(hex(randomblob(16))), NEW.settled_at, NEW.state, NEW.id, NEW.run_id, NEW.settled_by,
        json_object('value', NEW.value, 'note', NEW.note, 'request_id', NEW.request_id)
    );
END;

CREATE TRIGGER question_is_reassigned AFTER UPDATE OF assignees ON promises
WHEN NEW.kind = 'question' AND NEW.state = 'pending' AND OLD.assignees <> NEW.assignees
BEGIN
    DELETE FROM inbox WHERE number = NEW.number;
    INSERT INTO inbox SELECT DISTINCT NEW.namespace, value, NEW.number FROM json_each(NEW.assignees);
    INSERT INTO inbox SELECT NEW.namespace, '', NEW.number WHERE NEW.assignees = '[]';
END;

-- The number of a promise that is gone may be another one's some day.
CREATE TRIGGER question_is_deleted AFTER DELETE ON promises WHEN OLD.kind = 'question'
BEGIN
    DELETE FROM inbox WHERE number = OLD.number;
    DELETE FROM amendments WHERE number = OLD.number;
END;

INSERT INTO inbox SELECT namespace, '', number FROM promises WHERE kind = 'question' AND state = 'pending';
