"""Skipping a chapter in the terminal: its questions, the exercise, and what to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from torchkata.tools.learning.outcomes import Verdict
from torchkata.tools.learning.review import Card, section_of
from torchkata.tools.learning.review_terminal import Ask, Ended, ask_card
from torchkata.tools.learning.skipping import (
    OF_FIVE,
    Answered,
    Trial,
    answered_before,
    day_of,
    note_answers,
    note_known,
    section_of_exercise,
)

ONCE_MORE = "[Enter] check it, [q] end: "
Check = Callable[[], Verdict]  # checks the exercise and shows the verdict


def run_trial(trial: Trial, out: Console, ask: Ask, check: Check) -> bool:
    """Ask what is left to ask; whether the chapter is known. `ask` shows a line and reads one; it raises EOFError or
    KeyboardInterrupt where nobody answers. `check` judges the exercise as `torchkata check` does."""
    given = answered_before(trial)
    if given and given.known:
        _say(out, f"{_named(trial)} has counted as known since {day_of(given.known)}.")
        _tell_what_to_read(trial, given, out)
        return True
    if given:
        _say(out, f"You answered its questions on {day_of(given.asked)}. What is left is the exercise.")
    else:
        given = _questions(trial, out, ask)
        if given is None or not given.passed:
            return False
    if not _exercise(trial, given, out, ask, check):
        return False
    note_known(trial, given)
    _say(out, f"\nPassed. {_named(trial)} now counts as known, and `torchkata review` asks about it.")
    _tell_what_to_read(trial, given, out)
    return True


# ---------------------------------------------------------------- the questions


def _questions(trial: Trial, out: Console, ask: Ask) -> Answered | None:
    """The answers to all questions; None where they were broken off. Which one is right is told later, so that a
    second try still asks."""
    name, number, count = _named(trial), trial.chapter.number, len(trial.cards)
    _say(out, f"{name}: {count} questions, of which at most {count // OF_FIVE} may be missed, and one exercise.")
    missed = []
    try:
        for n, card in enumerate(trial.cards, 1):
            out.rule(f"Question {n} of {count}")
            if ask_card(card, out, ask) != card.question.answer:
                missed.append(card)
    except (EOFError, KeyboardInterrupt, Ended):
        _say(out, f"\nStopped. Nothing was noted. To begin again: torchkata skip {number}")
        return None
    given = note_answers(trial, missed)
    out.rule()
    _say(out, f"{len(given.right)} of {count} right.")
    if not given.passed:
        _say(out, "That isn't enough to skip the chapter; nothing was noted. Read:")
        _list(_sections(missed), out)
    return given


# ---------------------------------------------------------------- the exercise


def _exercise(trial: Trial, given: Answered, out: Console, ask: Ask, check: Check) -> bool:
    """Whether the exercise is solved in the learner's notebook; asked for until it is, or the learner has enough."""
    title = trial.exercise.title or trial.exercise.id
    try:
        while True:
            verdict = check()
            if verdict.solved:
                return True
            to_do = "Solve" if verdict.is_open else "Correct"
            _say(out, f"{to_do} {title} in your notebook and save it:")
            out.print(Text(str(trial.chapter.workbook)), soft_wrap=True)  # whole, so that it can be copied
            if ask(escape(ONCE_MORE)).strip().lower() == "q":
                break
    except (EOFError, KeyboardInterrupt):
        pass
    _say(
        out,
        f"\n{title} is not solved yet, so the chapter doesn't count as known. Your answers to the questions are kept: "
        f"when the exercise is solved, run torchkata skip {trial.chapter.number} again. To read:",
    )
    _list([section_of_exercise(trial), *_sections(_cards(trial, given.missed))], out)
    return False


# ---------------------------------------------------------------- what to read


def _tell_what_to_read(trial: Trial, given: Answered, out: Console) -> None:
    missed = _cards(trial, given.missed)
    if missed:
        _say(out, "\nYou missed:")
    for card in missed:
        question = card.question
        asked = f"{question.asks}\n{question.code}".rstrip()
        _say(out, f"\n{asked}\n{question.answer}. {question.because}\nRead {section_of(card)[0]}.")
    _say(out, "\nPeople who know PyTorch still get these wrong, so read their sections anyway:")
    for card in trial.anyway:
        _say(out, f"\n{section_of(card)[0]}\nThey believe: {card.question.fact.belief}\n{card.question.fact.fact}")


def _cards(trial: Trial, ids: Sequence[str]) -> list[Card]:
    return [card for card in trial.cards if card.id in ids]


def _sections(cards: Sequence[Card]) -> list[str]:
    return [section_of(card)[0] for card in cards]


def _list(titles: Iterable[str], out: Console) -> None:
    """Each title once."""
    for title in dict.fromkeys(titles):
        _say(out, f"  {title}")


def _named(trial: Trial) -> str:
    return f"Chapter {trial.chapter.number} ({trial.chapter.title})"


def _say(out: Console, text: str) -> None:
    out.print(Text(text))
