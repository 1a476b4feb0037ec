"""Classroom grading: answers run in a sandbox, check cells judge outside of it."""
