"""Doors to other libraries. Each is an optional extra; `import signoff` imports none of them."""
