"""Where the website and its repository live, from the environment of the workflow that publishes it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Home:
    """Both are empty where nobody has said; then no link leads there.

    address: of the website, with a slash at its end; repository: owner/name on GitHub.
    """

    address: str = ""
    repository: str = ""

    @property
    def path(self) -> str:
        """The part of the address behind the host: where pages that are shown anywhere find the others."""
        return urlsplit(self.address).path or "/"

    @property
    def repository_address(self) -> str:
        return f"https://github.com/{self.repository}" if self.repository else ""

    def colab(self, notebook: str) -> str:
        """The address that opens a released notebook (03_gather_scatter/gather_scatter.ipynb) in Colab, or nothing."""
        if not self.repository:
            return ""
        return f"https://colab.research.google.com/github/{self.repository}/blob/main/notebooks/{notebook}"


def home() -> Home:
    """What SITE_ADDRESS and SITE_REPOSITORY say."""
    address = os.environ.get("SITE_ADDRESS", "").strip()
    return Home(address.rstrip("/") + "/" if address else "", os.environ.get("SITE_REPOSITORY", "").strip())
