"""nbgrader's settings: the chapters are assignments; solutions/ is the source, notebooks/ the release."""

import secrets
from pathlib import Path

from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbgrader.converters import Autograde, GenerateAssignment
from nbgrader.preprocessors import ClearSolutions, DeduplicateIds, GetGrades

from torchkata.base.marks import STUB
from torchkata.tools.learning.outcomes import CELL_TIMEOUT, TOO_LONG
from torchkata.tools.nbgrader_parts import (
    FoldChecks,
    GivenCode,
    HideTests,
    MasterMetadata,
    NoticeOfMissing,
    ReleaseMetadata,
)

c = get_config()

ROOT = Path(__file__).resolve().parent
c.CourseDirectory.root = str(ROOT)
c.CourseDirectory.course_id = "torchkata"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "notebooks"
# the sources beside the notebooks hold all solutions and hidden tests: nbgrader would copy them to students
sources = sorted(path.name for path in (ROOT / "solutions").glob("*/*.py"))
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", "exercises", "ways", *sources]

# ---- release: notebooks/ ----
c.ClearSolutions.code_stub = {"python": STUB}
# exercises that give broken code to repair get that code, not the stub
c.GenerateAssignment.preprocessors = [
    *(GivenCode if step is ClearSolutions else step for step in GenerateAssignment.preprocessors.default_args[0]),
    # where torchkata is missing, as on Colab, the first cell says what to do
    NoticeOfMissing,
    # timestamps, widget state and the authors' notes on cells stay out of the release
    ReleaseMetadata,
]

# ---- autograde ----
# seconds for one cell: the slowest cell of a chapter takes under 10; an endless loop is cut off here and earns 0
c.Execute.timeout = CELL_TIMEOUT
c.Execute.error_on_timeout = {"ename": "TooLong", "evalue": TOO_LONG, "traceback": [TOO_LONG]}
# nbgrader gives 0 points to a check cell with any text on stderr; a warning must not cost a right answer's points
c.IgnorePattern.enabled = True
c.IgnorePattern.pattern = "(?s)."
# one tag on a check cell would make nbgrader skip it and give full points: wait for a tag that nobody can guess
c.Execute.skip_cells_with_tag = secrets.token_hex(16)
# a copied cell, a wrong schema version or changed points would stop the batch or win points: take them from the
# release; deleted check cells come back and are run
c.MasterMetadata.release_directory = str(ROOT / "notebooks")
c.Autograde.sanitize_preprocessors = [
    MasterMetadata if step is DeduplicateIds else step for step in Autograde.sanitize_preprocessors.default_args[0]
]

# ---- formgrader ----
# an answer's verdict stands right below it, the code of its check cells is folded
c.HTMLExporter.preprocessors = [FoldChecks]

# ---- collecting ----
# zip_collect also takes what browsers make of a notebook, such as gather_scatter.ipynb.json; `torchkata grade` finds it
c.FileNameCollectorPlugin.valid_ext = [".ipynb", ".json", ".txt"]

# ---- feedback ----
# feedback of nbgrader shows the hidden tests and tracebacks through them
c.GenerateFeedback.preprocessors = [GetGrades, HideTests, CSSHTMLHeaderPreprocessor]
