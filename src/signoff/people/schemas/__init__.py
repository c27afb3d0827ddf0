"""JSON Schemas of answers, and validation against them."""
