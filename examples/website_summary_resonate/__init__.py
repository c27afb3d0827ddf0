"""The website summary on resonate-sdk 0.6.7, unmodified, with a Signoff server. See README.md."""
