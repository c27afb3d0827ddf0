-- Checkpoints: the saved states of graphs of other libraries, by thread and by the path of the subgraph.
CREATE TABLE signoff.checkpoints (
    thread_id text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    parent_id text COLLATE "C",
    graph_run text COLLATE "C",
    versions jsonb NOT NULL,  -- the version of each channel
    type text NOT NULL,
    state bytea NOT NULL,
    metadata_type text NOT NULL,
    metadata bytea NOT NULL,
    PRIMARY KEY (thread_id, namespace, path, id)
);

CREATE INDEX checkpoints_by_id ON signoff.checkpoints (namespace, id, thread_id, path);
CREATE INDEX checkpoints_by_run ON signoff.checkpoints (namespace, graph_run, id) WHERE graph_run IS NOT NULL;

-- The values of channels, each version once.
CREATE TABLE signoff.channel_values (
    thread_id text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    channel text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,
    type text NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (thread_id, namespace, path, channel, version)
);

-- What tasks of a graph have written after a checkpoint.
CREATE TABLE signoff.checkpoint_writes (
    thread_id text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    checkpoint_id text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    place integer NOT NULL,  -- among the task's writes; negative: of a special channel
    task_path text COLLATE "C" NOT NULL,
    channel text NOT NULL,
    type text NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (thread_id, namespace, path, checkpoint_id, task_id, place)
);
