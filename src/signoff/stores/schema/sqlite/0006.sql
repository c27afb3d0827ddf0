-- Notifications: how far each channel has read the chain of audit events, and what it has yet to deliver.

CREATE TABLE channels (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    seq INTEGER NOT NULL,  -- of the last event that it has made into deliveries
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE deliveries (
    number INTEGER PRIMARY KEY,  -- their order; one that is sent again gets a new one
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    channel TEXT NOT NULL,
    recipient TEXT NOT NULL,
    event_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    question_id TEXT NOT NULL,
    run_id TEXT,
    state TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'dropped', 'dead')),
    created_at REAL NOT NULL,
    due_at REAL,  -- of a pending one: NULL if it waits for an earlier one
    attempts INTEGER NOT NULL DEFAULT 0,
    ended_at REAL,
    error TEXT,
    UNIQUE (namespace, id)
) STRICT;

CREATE INDEX deliveries_due ON deliveries (namespace, channel, due_at) WHERE state = 'pending' AND due_at IS NOT NULL;
CREATE INDEX deliveries_in_lane ON deliveries (namespace, channel, question_id, recipient) WHERE state = 'pending';
CREATE INDEX deliveries_ended ON deliveries (namespace, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX deliveries_by_namespace ON deliveries (namespace);
CREATE INDEX deliveries_by_state ON deliveries (namespace, state);
CREATE INDEX deliveries_by_channel ON deliveries (namespace, channel);
CREATE INDEX deliveries_by_channel_and_state ON deliveries (namespace, channel, state);
CREATE INDEX deliveries_by_question ON deliveries (namespace, question_id);
