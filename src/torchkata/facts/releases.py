"""What holds for one release of torch and not for another: the part `holds` of a fact in its YAML file.

    holds:
      "<2.14":
        fact: torch.quantile takes at most 2**24 elements.
        proof: |
          …
      ">=2.14":
        fact: …
        proof: |
          …

The keys are version specifiers as in a requirement. Each release belongs to exactly one of them.
"""

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

MAY_DIFFER = ("verdict", "fact", "trap", "proof")


def installed_release() -> Version:
    """The release of the torch that is installed: 2.14.1 for 2.14.1+cu130, 2.15.0 for a nightly build before it."""
    return Version(Version(version("torch")).base_version)


def variants(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The entry as it is for each part of `holds`, or itself where there is none."""
    return [_with_part(entry, part) for part in entry["holds"].values()] if "holds" in entry else [entry]


def variant_for(entry: dict[str, Any], release: Version) -> dict[str, Any]:
    """The entry as it is for one release; `holds` is free of faults."""
    for key, part in entry.get("holds", {}).items():
        if SpecifierSet(key).contains(release):
            return _with_part(entry, part)
    return entry


def _with_part(entry: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in entry.items() if field != "holds"} | part


def holds_fault(entry: dict[str, Any]) -> str | None:
    """What is wrong with the part `holds` of an entry, or None. Its fields are judged with the variants."""
    if "holds" not in entry:
        return None
    holds = entry["holds"]
    if not isinstance(holds, dict) or len(holds) < 2:
        return 'holds must have a part for each group of releases, such as "<2.14" and ">=2.14"'
    for key, part in holds.items():
        if not _is_specifier(key):
            return f"{key!r} in holds is no version specifier such as '>=2.14'"
        if not isinstance(part, dict) or not part or not set(part) <= set(MAY_DIFFER):
            return f"the part {key} of holds may have {', '.join(MAY_DIFFER)}, and must have one of them"
        if twice := sorted(set(part) & set(entry)):
            return f"{twice[0]} stands in the entry and in the part {key} of holds; leave one of them out"
    return _coverage_fault([SpecifierSet(key) for key in holds])


def _is_specifier(key: object) -> bool:
    try:
        return isinstance(key, str) and len(SpecifierSet(key)) > 0
    except InvalidSpecifier:
        return False


def _coverage_fault(keys: list[SpecifierSet]) -> str | None:
    for release in sorted(_around(keys)):
        belongs_to = [str(key) for key in keys if key.contains(release)]
        if not belongs_to:
            return f"no part of holds is for torch {release}"
        if len(belongs_to) > 1:
            return f"torch {release} belongs to {' and to '.join(belongs_to)}"
    return None


def _around(keys: Iterable[SpecifierSet]) -> set[Version]:
    """Releases at, shortly before and shortly after each version that the keys name."""
    found: set[Version] = set()
    for named in (Version(specifier.version.removesuffix(".*")) for key in keys for specifier in key):
        major, minor, micro = named.major, named.minor, named.micro
        near = [(minor, micro), (minor, micro + 1), (minor + 1, 0), (max(minor - 1, 0), 0)]
        near += [(minor, micro - 1) if micro else (max(minor - 1, 0), 99)]
        found |= {Version(f"{major}.{a}.{b}") for a, b in near}
    return found
