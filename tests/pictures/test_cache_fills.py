"""The cache fills: bytes against tensors of that size, writes against a cache that is run."""

from functools import partial

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.pictures import drawn
from torchkata.pictures import cache_fills
from torchkata.pictures.cache_fills import CAT, ONCE, cache_after, draw_kv_cache, kv_cache_explorer

GALLERY = drawn.Gallery(
    {
        "explorer": lambda: kv_cache_explorer().picture(),
        "empty": partial(draw_kv_cache, 0, 8, None, CAT),
        "too much": partial(draw_kv_cache, 24_576, 24, None, ONCE),
        "one head": partial(draw_kv_cache, 1024, 1, 4096, ONCE),
        "window": partial(draw_kv_cache, 32_768, 24, 4096, CAT),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY
    widest = 280


class Written(TorchDispatchMode):
    """Counts the positions that cat and copy_ write; the positions are the last dimension but one."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func in (torch.ops.aten.cat.default, torch.ops.aten.copy_.default):
            self.count += out.shape[-2]
        return out


@pytest.mark.parametrize("window", [None, 4])
def test_what_is_written_is_what_a_cache_writes_that_is_run(window, monkeypatch):
    monkeypatch.setattr(cache_fills, "LONGEST", 10)
    most, keys = window or 10, torch.empty(1, 2, 0, 4)
    with Written() as cat:
        for _ in range(10):
            keys = torch.cat([keys[:, :, max(0, keys.shape[2] + 1 - most) :], torch.ones(1, 2, 1, 4)], 2)
    found = cache_after(10, 2, window, CAT)
    assert (found.written, found.kept, found.taken) == (cat.count, keys.shape[2], keys.shape[2])
    buffer = torch.zeros(1, 2, most, 4)
    with Written() as once:
        for token in range(10):
            buffer[:, :, token % most : token % most + 1] = torch.ones(1, 2, 1, 4)
    found = cache_after(10, 2, window, ONCE)
    assert (found.written, found.taken) == (once.count, buffer.shape[2])


@pytest.mark.parametrize("kv_heads", cache_fills.KV_HEADS)
@pytest.mark.parametrize("how", [CAT, ONCE])
def test_the_bytes_are_those_of_such_tensors(kv_heads, how):
    found = cache_after(8192, kv_heads, None, how)
    layer = [torch.empty(1, kv_heads, found.taken, 128, dtype=torch.bfloat16, device="meta") for _ in "kv"]
    assert found.bytes == cache_fills.LAYERS * sum(one.nbytes for one in layer)


def test_what_fits_fits_and_one_more_does_not():
    for kv_heads in cache_fills.KV_HEADS:
        most, one = cache_fills.most_positions(kv_heads), cache_fills.each_position(kv_heads) * cache_fills.LAYERS
        assert cache_fills.WEIGHTS + most * one <= cache_fills.CARD < cache_fills.WEIGHTS + (most + 1) * one


def test_the_words_tell_the_bytes_and_whether_they_fit():
    assert "2 · 28 · 8 · 128 · 2 bytes = 112 KiB a position" in GALLERY["explorer"].alt
    assert "written in each layer: 33,558,528 positions" in GALLERY["explorer"].alt
    assert "memory of the cache: 10.5 GiB" in GALLERY["too much"].alt and "✗ does not fit" in GALLERY["too much"].alt
    assert "kept: 4,096 positions" in GALLERY["window"].alt and "✓ fits" in GALLERY["window"].alt


def test_the_explorer():
    drawn.check_explorer(kv_cache_explorer())
