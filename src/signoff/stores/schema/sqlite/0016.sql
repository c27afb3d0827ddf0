-- What the threads of a worker do that run plain steps, as it last said. NULL where it has not.

ALTER TABLE workers ADD COLUMN threads INTEGER;
ALTER TABLE workers ADD COLUMN threads_busy INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN threads_waiting INTEGER NOT NULL DEFAULT 0;
