"""Where the website and its repository live, from the environment of the workflow that publishes it, and the addresses
to which pages lead from there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urlsplit


@dataclass(frozen=True)
class Home:
    """All are empty where nobody has said, and then no link leads there: each address below is then "".

    address: of the website, with a slash at its end; repository: owner/name on GitHub; branch: whose files are linked;
    day: of the commit from which the pages are made (ISO 8601).
    """

    address: str = ""
    repository: str = ""
    branch: str = "main"
    day: str = ""

    @property
    def path(self) -> str:
        """The part of the address behind the host: where pages that are shown anywhere find the others."""
        return urlsplit(self.address).path or "/"

    @property
    def repository_address(self) -> str:
        return f"https://github.com/{self.repository}" if self.repository else ""

    def file(self, path: str) -> str:
        """The address that shows a file of the repository."""
        return self._in_repository(f"blob/{self.branch}/{path}")

    def edit(self, path: str) -> str:
        """The address at which a file of the repository is changed."""
        return self._in_repository(f"edit/{self.branch}/{path}")

    def colab(self, notebook: str) -> str:
        """The address that opens a released notebook (03_gather_scatter/gather_scatter.ipynb) in Colab."""
        if not self.repository:
            return ""
        return f"https://colab.research.google.com/github/{self.repository}/blob/{self.branch}/notebooks/{notebook}"

    def binder(self, notebook: str) -> str:
        """The address that opens a notebook of the workbook (03_gather_scatter/gather_scatter.ipynb) on Binder, which
        puts the workbook where binder/postBuild says."""
        if not self.repository:
            return ""
        shown = urlencode({"urlpath": f"lab/tree/workbook/{notebook}"})
        return f"https://mybinder.org/v2/gh/{self.repository}/{quote(self.branch, safe='')}?{shown}"

    def doubt_verdict(self, exercise: str = "") -> str:
        """The address of a new issue about a verdict: .github/ISSUE_TEMPLATE/verdict.yml, begun."""
        return self._issue("verdict.yml", title=f"Verdict: exercise {exercise}".strip())

    def doubt_text(self, place: str = "", sentence: str = "") -> str:
        """The address of a new issue about something that a page says: .github/ISSUE_TEMPLATE/sentence.yml, begun."""
        return self._issue("sentence.yml", title=f"Text: {place}".strip(), place=place, sentence=sentence)

    def _issue(self, template: str, **filled: str) -> str:
        given = {name: text for name, text in filled.items() if text}
        return self._in_repository(f"issues/new?{urlencode({'template': template, **given})}")

    def _in_repository(self, rest: str) -> str:
        return f"{self.repository_address}/{rest}" if self.repository else ""


def home() -> Home:
    """What SITE_ADDRESS, SITE_REPOSITORY, SITE_BRANCH and SITE_DAY say."""

    def said(name: str) -> str:
        return os.environ.get(f"SITE_{name}", "").strip()

    address = said("ADDRESS")
    return Home(address.rstrip("/") + "/" if address else "", said("REPOSITORY"), said("BRANCH") or "main", said("DAY"))
