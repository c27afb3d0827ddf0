"""The API that workflow code is written against."""
