"""What keeps one submission, or one source, from being collected; the others go on."""


class NotTaken(Exception):
    """The message says why, as a sentence."""
