"""The built site, as files and served."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

BUILT = Path(__file__).parents[2] / "docs" / "_build" / "html"


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, *args: object) -> None:
        """Nothing."""


@pytest.fixture(scope="session")
def built() -> Path:
    if not (BUILT / "index.html").is_file():
        pytest.skip("the site is not built; call make docs")
    return BUILT


@pytest.fixture(scope="session")
def address(built: Path) -> Iterator[str]:
    """Where the site is served, without a slash at the end."""
    handler = partial(Quiet, directory=str(built))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
