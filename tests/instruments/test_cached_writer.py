"""The cached writer writes what the whole model writes, and something else with either of its two faults."""

from torchkata.instruments.cached_writer import written, written_with_cache
from torchkata.small_lm import stored_model


def test_only_the_right_cache_writes_the_same_text():
    model, prompt = stored_model(), "The stat"
    whole = written(model, prompt, 24)
    assert whole.startswith(prompt) and len(whole) == 32
    assert written_with_cache(model, prompt, 24) == whole
    for positions, mask in ((False, False), (True, False), (False, True)):
        other = written_with_cache(model, prompt, 24, positions_go_on=positions, last_sees_all=mask)
        assert other.startswith(prompt) and len(other) == 32
        assert other != whole
