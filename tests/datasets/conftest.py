"""A web server on this machine, so that no test needs the network."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class _Handler(BaseHTTPRequestHandler):
    pages: dict[str, bytes]

    def do_GET(self):
        content = self.pages.get(self.path)
        self.send_response(404 if content is None else 200)
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *args):
        pass


@pytest.fixture
def serve(monkeypatch) -> Iterator[Callable[..., list[str]]]:
    """Function that publishes contents and returns their addresses."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    handler = type("Handler", (_Handler,), {"pages": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def publish(*contents: bytes) -> list[str]:
        pages = {f"/{k}": content for k, content in enumerate(contents)}
        handler.pages.update(pages)
        return [f"http://127.0.0.1:{server.server_port}{page}" for page in pages]

    yield publish
    server.shutdown()
    server.server_close()
    thread.join()
