-- Functions that triggers call. They are loaded before the tables, whose migrations attach the triggers.

-- Refuse to change or delete audit events and seals.
CREATE OR REPLACE FUNCTION signoff.refuse_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit events and their seals are not changed or deleted';
END $$;

-- Have a new event wait for its place in the chain.
CREATE OR REPLACE FUNCTION signoff.queue_for_seal() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO signoff.unsealed (shard, namespace, event_id, number)
    VALUES (NEW.shard, NEW.namespace, NEW.id, NEW.number);
    RETURN NULL;
END $$;

-- A question was asked: fill inboxes and record it.
CREATE OR REPLACE FUNCTION signoff.note_asked() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state = 'pending' THEN
        PERFORM signoff.fill_inboxes(NEW);
        PERFORM signoff.record_state(NEW, 'asked', NEW.created_at, json_build_object(
            'data', NEW.data, 'assignees', NEW.assignees, 'due_at', NEW.due_at
        ));
    END IF;
    RETURN NULL;
END $$;

-- A question was settled: empty inboxes and record it.
CREATE OR REPLACE FUNCTION signoff.note_settled() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state = 'pending' AND NEW.state <> 'pending' THEN
        PERFORM signoff.empty_inboxes(NEW);
        PERFORM signoff.record_state(NEW, NEW.state, NEW.settled_at, json_build_object(
            'value', NEW.value, 'note', NEW.note, 'request_id', NEW.request_id
        ));
    END IF;
    RETURN NULL;
END $$;

-- A question got other assignees.
CREATE OR REPLACE FUNCTION signoff.note_reassigned() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM signoff.empty_inboxes(NEW);
    PERFORM signoff.fill_inboxes(NEW);
    RETURN NULL;
END $$;

-- A question was deleted.
CREATE OR REPLACE FUNCTION signoff.note_deleted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM signoff.empty_inboxes(OLD);
    DELETE FROM signoff.amendments
    WHERE shard = OLD.shard AND namespace = OLD.namespace AND question_id = OLD.id;
    RETURN NULL;
END $$;

-- A promise was deleted: delete its task, and what tasks and listeners wait for.
CREATE OR REPLACE FUNCTION signoff.delete_task() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM signoff.tasks WHERE shard = OLD.shard AND namespace = OLD.namespace AND id = OLD.id;
    IF FOUND THEN
        DELETE FROM signoff.task_awaits WHERE awaiter = OLD.id AND namespace = OLD.namespace;
    END IF;
    DELETE FROM signoff.task_awaits WHERE shard = OLD.shard AND namespace = OLD.namespace AND awaited = OLD.id;
    DELETE FROM signoff.promise_listeners
    WHERE shard = OLD.shard AND namespace = OLD.namespace AND promise_id = OLD.id;
    DELETE FROM signoff.promise_branches
    WHERE shard = OLD.shard AND namespace = OLD.namespace AND promise_id = OLD.id;
    RETURN NULL;
END $$;
