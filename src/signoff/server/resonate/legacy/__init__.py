"""The protocol of Resonate from 2024, as resonate-sdk 0.6.7 speaks it: ``signoff server --resonate-legacy``.

A task of that protocol is the task of its root promise. Its counter is the version that its next acquisition gives it,
and the version itself while a process holds it. Completing a task suspends it: a promise that its process has
registered a callback for resumes it, once settled.
"""
