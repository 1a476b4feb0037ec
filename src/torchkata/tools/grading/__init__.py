"""Classroom grading: answers run in a sandbox, check cells judge outside of it."""

import torchkata.tools.nbgrader_package  # noqa: F401 # before any module of nbgrader
