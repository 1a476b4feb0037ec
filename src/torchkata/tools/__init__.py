"""Tools of the course: never imported by its notebooks."""

import sys

# jsonschema, which nbformat imports, imports rfc3987_syntax where it is installed. That builds 39 parsers, for over a
# second, to check a format (IRIs) that no notebook has; without it jsonschema leaves that check out.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type] # typeshed does not know None here
