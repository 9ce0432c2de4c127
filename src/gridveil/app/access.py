"""Who may talk to the app: the browser that opened the link with the token, on this computer, from the app's own pages.

Every request (page, script, upload, download, websocket) must carry the token: in the address of the first page, then in a
cookie that the first page sets. A request for another host name is refused, so that no name of an outsider can be made to
point here; so is one that another page sends (by its Origin, or by what the browser says of its sender).
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = "127.0.0.1"
# Shiny puts two lines of script into its pages, which are let through by their hashes.
SHINY_LINES = (
    "'sha256-erP5hScmId9gRru9k52QQl/lSJmUl8NfFAiLNMbPtcg=' 'sha256-gb2teCJPKprj3suUu96YMl66Mzjq9dgXvxYaiNc7fh4='"
)
POLICY = (
    f"default-src 'none'; script-src 'self' {SHINY_LINES}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; frame-src 'self'; "
    "frame-ancestors 'self'; form-action 'self'; base-uri 'none'"
)
REFUSED = (
    "403: this page opens only from the link that 'gridveil app' printed when it started. "
    "Open that link again; if the app was restarted, use the new one.\n"
)


@dataclass(frozen=True)
class Access:
    """Guards an application; ``port`` is where it listens."""

    inner: ASGIApp
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def url(self) -> str:
        """The link that opens the app."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """Name of the cookie; ports of one host share their cookies, so the name has the port."""
        return f"gridveil-{self.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what may pass, and refuse the rest before anything is read."""
        if scope["type"] == "lifespan":
            await self.inner(scope, receive, send)
            return
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        by_link = self._has_link(scope)
        if not (self._is_here(headers) and self._is_ours(scope, headers) and (by_link or self._has_cookie(headers))):
            await _refuse(scope, receive, send)
            return
        await self.inner(scope, receive, self._with_headers(send, set_cookie=by_link))

    def _is_here(self, headers: Mapping[str, str]) -> bool:
        return headers.get("host") in {f"{name}:{self.port}" for name in (HOST, "localhost")}

    def _is_ours(self, scope: Scope, headers: Mapping[str, str]) -> bool:
        """Whether no other page sent this; a page that is opened by a link may come from anywhere, if it has the token."""
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{headers.get('host')}":
            return False
        sender = headers.get("sec-fetch-site", "none")
        return sender in {"same-origin", "none"} or (scope["type"] == "http" and self._has_link(scope))

    def _has_link(self, scope: Scope) -> bool:
        """Whether this opens the first page by the link with the token."""
        if scope["type"] != "http" or scope["path"] != "/" or scope["method"] not in {"GET", "HEAD"}:
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
        return len(given) == 1 and self._is_token(given[0])

    def _has_cookie(self, headers: Mapping[str, str]) -> bool:
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        return self.cookie in cookies and self._is_token(cookies[self.cookie].value)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())

    def _with_headers(self, send: Send, *, set_cookie: bool) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Content-Security-Policy", POLICY)
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "no-referrer"
                headers["Cross-Origin-Resource-Policy"] = "same-origin"
                headers["Cross-Origin-Opener-Policy"] = "same-origin"
                headers["Cache-Control"] = "no-store"
                if set_cookie:
                    headers.append("Set-Cookie", f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict")
            await send(message)

        return sending


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
        return
    await PlainTextResponse(REFUSED, status_code=403)(scope, receive, send)
