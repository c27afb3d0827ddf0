-- The register of workflows: what workers run, and what it takes.

CREATE TABLE signoff.workflows (
    name text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    group_name text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,
    is_current boolean NOT NULL,
    description text,
    parameters text,
    seen_at double precision NOT NULL,
    PRIMARY KEY (name, namespace, group_name, version)
);

CREATE INDEX workflows_by_name ON signoff.workflows (namespace, name, group_name, version);
