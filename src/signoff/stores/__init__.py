"""Where runs live. ``contract`` says what a store does; ``sqlite``, ``postgres`` and ``remote`` do it."""
