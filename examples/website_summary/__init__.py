"""A web page is downloaded and summarised, and a person accepts or rejects the summary. See README.md."""
