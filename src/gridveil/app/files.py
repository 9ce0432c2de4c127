"""Files of releases for the curator's browser: pages to look at, everything else to download."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from gridveil.app.data_folder import DataFolder, StoredRelease
from gridveil.app.request import ReleaseRequest

PREFIX = "/files/"
# Pages of a release bring a policy of their own, by the hashes of their scripts; this one adds that they are strangers here.
PAGE_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts allow-modals"
)
PUBLIC_ZIP, FOLDER_ZIP, COMMAND, SCRIPT, STUDY = "public.zip", "folder.zip", "command.txt", "release.py", "study.toml"


@dataclass(frozen=True)
class ReleaseFiles:
    """Answers requests below ``PREFIX``: the name of a release, then the name of one of its files."""

    data: DataFolder

    def answer(self, request: Request) -> Response:
        """Find a file by its listed name."""
        release_name, _, name = request.url.path.removeprefix(PREFIX).partition("/")
        stored = self.data.release(release_name)
        if request.method not in {"GET", "HEAD"} or stored is None:
            return _missing()
        made = self._made(stored, name)
        if made is not None:
            return _download(made, f"{stored.name}-{name}")
        path = stored.path_of(name)
        if path is None:
            return _missing()
        if path.suffix == ".html":
            page = path.read_text(encoding="utf-8")
            return Response(page, media_type="text/html", headers={"Content-Security-Policy": PAGE_POLICY})
        return _download(path.read_bytes(), f"{stored.name}-{path.name}")

    def _made(self, stored: StoredRelease, name: str) -> bytes | None:
        """Downloads that are made when they are asked for."""
        if name in {PUBLIC_ZIP, FOLDER_ZIP}:
            return stored.zipped(public_only=name == PUBLIC_ZIP)
        if name in {COMMAND, SCRIPT, STUDY}:
            return told(stored, name).encode()
        return None


def told(stored: StoredRelease, name: str) -> str:
    """The release as command line, script or study."""
    if name == COMMAND:
        return command_of(stored) + "\n"
    if name == SCRIPT:
        return _again(stored).script(f"{stored.name}-again")
    asked = ReleaseRequest.of(stored.request)
    return asked.study(Path(stored.network_file() or "released").name, asked.load().field)


def command_of(stored: StoredRelease) -> str:
    """The command that makes such a release again."""
    return _again(stored).command(f"{stored.name}-again")


def _again(stored: StoredRelease) -> ReleaseRequest:
    """The same request, now that the data set has its ledger; an earlier draw is named by its folder."""
    asked = ReleaseRequest.of(stored.request)
    earlier = str(stored.folder.with_name(asked.reuse)) if asked.reuse else ""
    return replace(asked, budget="", reuse=earlier)


def link(stored: StoredRelease, name: str) -> str:
    """The address of a file."""
    return f"{PREFIX}{quote(stored.name)}/{quote(name)}"


def _missing() -> Response:
    return PlainTextResponse("404: there is no such file\n", status_code=404)


def _download(content: bytes, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{quote(name)}"'}
    return Response(content, media_type="application/octet-stream", headers=headers)
