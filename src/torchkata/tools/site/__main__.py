"""make site: build the website into build/site; with --serve show it too."""

import argparse
import functools
import http.server
import sys
from pathlib import Path

from torchkata.tools.course import own_course
from torchkata.tools.errors import CourseError
from torchkata.tools.site.building import build_site

PORT = 8000


def main() -> None:
    """Build the website of the course in which we are."""
    options = argparse.ArgumentParser(prog="make site", description=__doc__)
    options.add_argument("--serve", action="store_true", help="show it on this machine until Ctrl+C")
    options.add_argument("--port", type=int, default=PORT)
    wanted = options.parse_args()
    try:
        site = build_site(own_course("make site", "a checkout of the course").root, Path("build"))
    except CourseError as error:
        sys.exit(str(error))
    print(f"The website is in {site}: open {site / 'index.html'}")
    if wanted.serve:
        serve(site, wanted.port)


def serve(site: Path, port: int) -> None:
    """Show the pages at http://127.0.0.1:port until Ctrl+C."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(site))
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError:
        sys.exit(f"Port {port} is taken. Choose another one: python -m torchkata.tools.site --serve --port {port + 1}")
    print(f"http://127.0.0.1:{port} (Ctrl+C ends it)")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()


if __name__ == "__main__":
    main()
