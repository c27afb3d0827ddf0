-- What a worker is: of which Signoff and Python, and what its code was built from. NULL where none has said it.

ALTER TABLE workers ADD COLUMN signoff_version TEXT;
ALTER TABLE workers ADD COLUMN python_version TEXT;
ALTER TABLE workers ADD COLUMN build TEXT;
