"""Which points and sentences of the answers in tests/answers have changed since a commit: `make replay`."""
