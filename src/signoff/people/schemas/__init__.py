"""JSON Schemas of answers, and checking values against them."""
