"""The durable promise protocol of Resonate, spoken by a Signoff server: ``signoff server --resonate``."""
