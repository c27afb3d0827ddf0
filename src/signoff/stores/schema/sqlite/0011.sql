-- From where promises were settled, and everything else came that is recorded of questions. JSON.

ALTER TABLE promises ADD COLUMN origin TEXT;
ALTER TABLE audit ADD COLUMN origin TEXT;

-- As in 0004.sql, with the origin.

DROP TRIGGER question_is_settled;

CREATE TRIGGER question_is_settled AFTER UPDATE OF state ON promises
WHEN NEW.kind = 'question' AND OLD.state = 'pending' AND NEW.state <> 'pending'
BEGIN
    DELETE FROM inbox WHERE number = NEW.number;
    INSERT INTO audit (namespace, id, at, kind, question_id, run_id, by, details, origin)
    VALUES (
        NEW.namespace, lower(hex(randomblob(16))), NEW.settled_at, NEW.state, NEW.id, NEW.run_id, NEW.settled_by,
        json_object('value', NEW.value, 'note', NEW.note, 'request_id', NEW.request_id), NEW.origin
    );
END;
