-- Checkpoints: the saved states of graphs of other libraries, by thread and by the path of the subgraph.
CREATE TABLE checkpoints (
    namespace TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    path TEXT NOT NULL,
    id TEXT NOT NULL,
    parent_id TEXT,
    graph_run TEXT,
    versions TEXT NOT NULL,  -- JSON: the version of each channel
    type TEXT NOT NULL,
    state BLOB NOT NULL,
    metadata_type TEXT NOT NULL,
    metadata BLOB NOT NULL,
    PRIMARY KEY (namespace, thread_id, path, id)
) STRICT;

CREATE INDEX checkpoints_by_id ON checkpoints (namespace, id, thread_id, path);
CREATE INDEX checkpoints_by_run ON checkpoints (namespace, graph_run, id) WHERE graph_run IS NOT NULL;

-- The values of channels, each version once.
CREATE TABLE channel_values (
    namespace TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    path TEXT NOT NULL,
    channel TEXT NOT NULL,
    version TEXT NOT NULL,
    type TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (namespace, thread_id, path, channel, version)
) STRICT;

-- What tasks of a graph have written after a checkpoint.
CREATE TABLE checkpoint_writes (
    namespace TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    path TEXT NOT NULL,
    checkpoint_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    place INTEGER NOT NULL,  -- among the task's writes; negative: of a special channel
    task_path TEXT NOT NULL,
    channel TEXT NOT NULL,
    type TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (namespace, thread_id, path, checkpoint_id, task_id, place)
) STRICT;
