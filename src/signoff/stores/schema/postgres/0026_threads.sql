-- What the threads of a worker do that run plain steps, as it last said. NULL where it has not.

ALTER TABLE signoff.workers
    ADD COLUMN threads integer,
    ADD COLUMN threads_busy integer NOT NULL DEFAULT 0,
    ADD COLUMN threads_waiting integer NOT NULL DEFAULT 0;
