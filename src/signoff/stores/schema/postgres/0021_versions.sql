-- What a worker is: of which Signoff and Python, and what its code was built from. NULL where none has said it.

ALTER TABLE signoff.workers
    ADD COLUMN signoff_version text,
    ADD COLUMN python_version text,
    ADD COLUMN build text;
