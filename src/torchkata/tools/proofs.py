"""Run the proofs of many facts, in worker processes, several at a time.

The proofs of a chapter share a process; those that are isolated have processes of their own. A proof passes
when it raises nothing and leaves its process as it found it, and is skipped when the machine lacks what it
needs.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from torchkata.facts.collection import Fact, FactError, chapter_names, load
from torchkata.facts.proof import TIMEOUT
from torchkata.tools.course import is_named

ISOLATED_PER_PIECE = 3
CLUSTER_VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE")


@dataclass(frozen=True)
class ProofResult:
    """How a proof went: passed, skipped or failed; the reason or the error as detail; the time in seconds."""

    id: str
    state: str
    detail: str
    seconds: float


def run_proofs(facts: Iterable[Fact], jobs: int = 2, timeout: float = TIMEOUT) -> dict[str, ProofResult]:
    """Run the proofs of these facts, `jobs` processes at a time, each proof for at most `timeout` seconds.

    Returns the results by the facts' ids.
    """
    results: dict[str, ProofResult] = {}
    with ThreadPoolExecutor(jobs) as pool:
        for part in pool.map(lambda piece: _run_piece(piece, timeout), _pieces(list(facts))):
            results.update(part)
    return results


def _pieces(facts: list[Fact]) -> list[list[Fact]]:
    """Facts that share a worker: a chapter's, and small groups of isolated ones; the slow pieces first."""
    weighted = []
    for chapter in sorted({fact.id[:2] for fact in facts}):
        together = [fact for fact in facts if fact.id[:2] == chapter and not fact.isolated]
        alone = [fact for fact in facts if fact.id[:2] == chapter and fact.isolated]
        for start in range(0, len(alone), ISOLATED_PER_PIECE):
            weighted.append((ISOLATED_PER_PIECE, alone[start : start + ISOLATED_PER_PIECE]))
        if together:
            weighted.append((1 + sum(bool(fact.needs) for fact in together), together))
    return [piece for _, piece in sorted(weighted, key=lambda entry: -entry[0])]


def _run_piece(facts: Sequence[Fact], timeout: float) -> dict[str, ProofResult]:
    """Run facts in a worker, and in a new one those that are left when it ends early."""
    results: dict[str, ProofResult] = {}
    while left := [fact for fact in facts if fact.id not in results]:
        results.update(_run_worker(left, timeout))
    return results


def _run_worker(facts: list[Fact], timeout: float) -> dict[str, ProofResult]:
    """Run one worker; the results of at least one fact, and of all of them unless it ended early."""
    with tempfile.TemporaryDirectory(prefix="facts_") as name:
        root = Path(name)
        for folder in ("proofs", "cwd", "tmp"):
            (root / folder).mkdir()
        job, results, output = root / "job.json", root / "results", root / "output"
        results.touch()
        job.write_text(
            json.dumps(
                {
                    "folder": str(root / "proofs"),
                    "results": str(results),
                    "timeout": timeout,
                    "facts": [asdict(fact) for fact in facts],
                }
            ),
            encoding="utf-8",
        )
        with output.open("wb") as stream:
            status = subprocess.run(
                [sys.executable, "-m", "torchkata.tools.proof_worker", str(job)],
                cwd=root / "cwd",
                env=_environment(root / "tmp"),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode
        rows = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
        finished = {row["id"]: ProofResult(**row) for row in rows if "id" in row}
        started = [row["start"] for row in rows if "start" in row] or [facts[0].id]
        if started[-1] not in finished:
            text = output.read_text(encoding="utf-8", errors="replace")[-3000:]
            detail = f"its process ended with status {status} (crash or timeout)\n{text}"
            finished[started[-1]] = ProofResult(started[-1], "failed", detail, 0.0)
        return finished


def _environment(temporary: Path) -> dict[str, str]:
    """The environment of a worker: one thread, a temporary folder of its own, no cluster's settings."""
    kept = {name: value for name, value in os.environ.items() if name not in CLUSTER_VARIABLES}
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    return {"OMP_NUM_THREADS": "1", **kept, **places}


def choose(words: Sequence[str], ids: Sequence[str]) -> dict[str, tuple[Fact, ...]]:
    """The facts of the chapters that the words name (03, gather_scatter or 03_gather_scatter; all for no words),
    of these only the ones with the given ids, if any. Raises FactError for a word or an id that names nothing.
    """
    chosen = {name: load(name) for name in _matching_names(words)}
    if not ids:
        return chosen
    known = {fact.id for facts in chosen.values() for fact in facts}
    unknown = [name for name in ids if name not in known]
    if unknown:
        raise FactError(f"There is no fact with the id {', '.join(unknown)} in {', '.join(chosen)}.")
    picked = {name: tuple(fact for fact in facts if fact.id in ids) for name, facts in chosen.items()}
    return {name: facts for name, facts in picked.items() if facts}


def _matching_names(words: Sequence[str]) -> list[str]:
    names = chapter_names()
    for word in words:
        if not any(is_named(word, name) for name in names):
            raise FactError(f"There are no facts on {word!r}. Chapters with facts: {', '.join(names)}.")
    return [name for name in names if not words or any(is_named(word, name) for word in words)]


def summarise(name: str, facts: Sequence[Fact], results: dict[str, ProofResult]) -> list[str]:
    """A chapter's row of the table: name, facts, core facts, passed, skipped, failed, seconds."""
    own = [results[fact.id] for fact in facts]
    states = Counter(result.state for result in own)
    core = sum(fact.level == "core" for fact in facts)
    counts = (len(own), core, states["passed"], states["skipped"], states["failed"])
    return [name, *map(str, counts), f"{sum(result.seconds for result in own):.1f}"]


def skip_reasons(results: Iterable[ProofResult]) -> str:
    """Why proofs were skipped, each reason with its count, or ""."""
    reasons = Counter(result.detail for result in results if result.state == "skipped")
    return ", ".join(f"{reason} ({count})" for reason, count in sorted(reasons.items()))
