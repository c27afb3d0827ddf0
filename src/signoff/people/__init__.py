"""Questions to people: their contents, valid answers, and the users who may answer."""
