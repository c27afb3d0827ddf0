"""Small refunds are paid at once, large ones wait for a person. See README.md."""
