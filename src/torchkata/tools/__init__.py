"""Tools of the course: never imported by its notebooks."""

import sys

# jsonschema, which nbformat imports, imports these where they are installed. The first builds 39 parsers, for over a
# second, to check a format (IRIs) that no notebook has, and the second brings all of arrow for one more (durations);
# without them jsonschema leaves those checks out.
for _name in ("rfc3987_syntax", "isoduration"):
    sys.modules.setdefault(_name, None)  # type: ignore[arg-type] # typeshed does not know None here
