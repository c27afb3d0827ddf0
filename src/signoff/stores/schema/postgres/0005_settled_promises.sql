-- Settled promises without a run, in the order in which retention deletes them.
CREATE INDEX promises_settled ON signoff.promises (namespace, settled_at, number)
    WHERE run_id IS NULL AND settled_at IS NOT NULL;
