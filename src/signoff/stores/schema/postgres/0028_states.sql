-- Listed by state alone. The expression keeps the index from statements that have a better one: before its first ANALYZE
-- Postgres takes all indexes for equally good, and would read all runs of a state for those of one workflow or parent.
DROP INDEX signoff.runs_by_state;
CREATE INDEX runs_by_state ON signoff.runs (('' || state), namespace, number);
