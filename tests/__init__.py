"""The tests of the course. The folders are those of src/torchkata, so that a module's test is found by its path;
besides: notebooks (the chapters and their answers), installing, browser, bench, links
(what asks where the course's links lead)."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]  # of the course
