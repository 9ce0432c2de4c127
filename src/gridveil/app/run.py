"""Start the app: on this computer alone, behind a link with a token.

In a container, 127.0.0.1 is the container itself, which no browser reaches. There the app listens on all addresses of the
container, and whoever starts it publishes the port on 127.0.0.1 of the computer; names and token are checked as ever.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from htmltools import Tag
from shiny import App
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from gridveil.app.access import HOST, Access
from gridveil.app.data_folder import DataFolder
from gridveil.app.files import PREFIX, ReleaseFiles
from gridveil.app.form import page
from gridveil.app.request import ReleaseRequest
from gridveil.app.server import make_server
from gridveil.app.work import Releases
from gridveil.core.choices import BatchEngine
from gridveil.core.errors import InputError

STATIC = Path(__file__).parent / "static"
EVERY_ADDRESS = "0.0.0.0"
BUG = "This part of the page could not be made; the terminal has no more to say, as messages may hold true demands."


def build(data: DataFolder, batch: BatchEngine) -> ASGIApp:
    """The application without its guard; ``batch`` is the engine of simulated releases that advance together."""

    def fresh_page(request: Request) -> Tag:
        asked = ReleaseRequest.of({"source": "", **data.remembered()})
        if data.given not in {None, asked.source}:
            asked = ReleaseRequest.of(
                {**asked.plain(), "source": data.given, "alpha": ""}
            )  # α is proposed for each case
        return page(data, asked)

    shiny = App(fresh_page, make_server(data, Releases(data), batch), static_assets={"/assets": STATIC})
    shiny.sanitize_errors, shiny.sanitize_error_msg = True, BUG
    files = ReleaseFiles(data)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(PREFIX):
            await files.answer(Request(scope))(scope, receive, send)
        else:
            await shiny(scope, receive, send)

    return application


def serve(data: DataFolder, batch: BatchEngine, *, port: int, in_container: bool, ready: Callable[[str], None]) -> None:
    """Serve until it is stopped; ``ready`` gets the link when the port is open. No request is logged: links hold the token."""
    if in_container and not port:
        raise InputError(
            "in a container the port has to be published, so state it: app --port 8321, run with --publish 127.0.0.1:8321:8321"
        )
    listener = _listener(EVERY_ADDRESS if in_container else HOST, port)
    guarded = Access(build(data, batch), listener.getsockname()[1])
    config = uvicorn.Config(guarded, log_level="error", access_log=False, server_header=False, ws_max_size=2**20)
    ready(guarded.url)
    uvicorn.Server(config).run(sockets=[listener])


def _listener(address: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except (OSError, OverflowError):
        listener.close()
        raise InputError(
            f"port {port} of this computer cannot be used; choose another --port, or leave it out"
        ) from None
    listener.listen()
    return listener
