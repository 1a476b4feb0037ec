"""The corpus: all attacks, kind by kind."""

# each module adds its attacks
from tests.tools.grading.hostile import (  # noqa: F401
    corpus_boundary,
    corpus_damage,
    corpus_ending,
    corpus_feedback,
    corpus_floods,
    corpus_hiding,
    corpus_lying,
    corpus_patching,
    corpus_reading,
    corpus_running,
    corpus_writing,
)
from tests.tools.grading.hostile.handin import CORPUS

__all__ = ["CORPUS"]
