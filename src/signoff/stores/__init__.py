"""Where runs live. ``base`` is the contract; each other module keeps it on one kind of database."""
