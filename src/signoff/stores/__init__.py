"""Stores: ``contract`` defines their operations; ``sqlite``, ``postgres`` and ``remote`` implement them."""
