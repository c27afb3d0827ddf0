"""Questions to people: what they look like, which answers they accept, and who may give them."""
