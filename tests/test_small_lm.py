"""The text of chapter 12, the tables that count it, and the course's model."""

from __future__ import annotations

import builtins
import copy
import math

import pytest
import torch

from torchkata import small_lm
from torchkata.small_lm import NoText, SmallLM, as_ids, as_text, reference_ids, reference_paragraphs, table_losses


def test_the_text_is_prose_in_ascii_each_paragraph_once():
    paragraphs = reference_paragraphs()
    assert len(paragraphs) == len(set(paragraphs)) > 800
    assert all(p.isascii() and "\n" not in p and "  " not in p for p in paragraphs)


def test_a_tenth_is_held_out():
    train, held_out = reference_ids()
    assert train.dtype == torch.int64 and train.min() >= 0 and train.max() < 128
    assert abs(len(held_out) / (len(train) + len(held_out)) - 0.1) < 0.001
    assert as_text(torch.cat([train, held_out])) == "\n".join(reference_paragraphs()) + "\n"


def test_a_python_without_the_text_is_told_where_there_is_one(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "pydoc_data.topics":
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(NoText, match=r"python\.org, pyenv, conda"):
        reference_paragraphs()


def test_ids_are_bytes_and_back():
    assert as_ids("aé").tolist() == [97, 0xC3, 0xA9] and as_text(as_ids("aé")) == "aé"


def test_tables_count():
    train, held_out = as_ids("ababababab"), as_ids("abab")
    single, pairs = table_losses(train, held_out, 2, prior=4.0)
    a = b = (5 + 4 / 256) / (10 + 4)
    assert single == pytest.approx(-math.log(a))
    # "a" is followed five times, by "b"; "b" four times, by "a"
    after = [a, (5 + 4 * b) / (5 + 4), (4 + 4 * a) / (4 + 4), (5 + 4 * b) / (5 + 4)]
    assert pairs == pytest.approx(-sum(map(math.log, after)) / 4)


def test_the_model_is_tied_causal_and_knows_nothing_at_its_start():
    torch.manual_seed(0)
    model = SmallLM(width=32, layers=2, length=16)
    ids = torch.randint(256, (2, 16))
    logits = model(ids)
    assert logits.shape == (2, 16, 256) and abs(logits.logsumexp(-1).mean() - math.log(256)) < 0.2
    changed = ids.clone()
    changed[:, 9] += 1
    same = (model(changed % 256) == logits).all(-1)
    assert same[:, :9].all() and not same[:, 9:].any()
    copied = copy.deepcopy(model).double()
    assert copied.head.weight is copied.emb.weight and "mask" not in copied.state_dict()


def test_turning_keeps_lengths_and_tells_distances():
    x = torch.randn(1, 1, 1, 8).expand(1, 1, 6, 8)
    turned = small_lm.turned(x)[0, 0]
    assert torch.allclose(turned.norm(dim=1), x[0, 0].norm(dim=1))
    products = turned @ turned.T
    assert torch.allclose(products.diagonal(2), products[0, 2].expand(4), atol=1e-5)


def test_a_while_of_training_helps_and_can_be_repeated():
    train, held_out = reference_ids()
    losses = []
    for _ in range(2):
        torch.manual_seed(0)
        model = SmallLM(width=16, layers=1, length=16)
        losses.append(small_lm.train_a_while(model, train, 30))
    assert losses[0] == losses[1] and losses[0][-1] < losses[0][0] - 1
    assert small_lm.held_out_loss(model, held_out[:2000], 16) < 4.5


def test_the_stored_model_reads_better_than_tables_of_four():
    train, held_out = reference_ids()
    model = small_lm.stored_model()
    assert not model.training
    assert small_lm.held_out_loss(model, held_out, model.length) < table_losses(train, held_out, 4)[-1]


def test_a_text_that_is_too_long_is_told_so():
    with pytest.raises(RuntimeError, match="at most 4 positions, not 5"):
        SmallLM(vocab=8, width=8, layers=1, length=4)(torch.zeros(1, 5, dtype=torch.int64))
