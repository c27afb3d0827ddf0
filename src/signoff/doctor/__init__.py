"""What is wrong with a deployment, and what to do about it: ``signoff doctor``."""
