"""Who may talk to the app: every path without the token, by another name or from another page is refused."""

from __future__ import annotations

import asyncio
import socket
import sys

import pytest

from app_server import app_server

PATHS = ("/", "/?token=wrong", "/assets/app.js", "/lib/jquery-3.6.0/jquery-3.6.0.min.js", "/files/x/public/card.html",
         "/session/x/upload/1", "/session/x/download/1", "/websocket/", "/nothing")  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with app_server(tmp_path_factory.mktemp("app"), "veil9") as one:
        yield one


def test_every_path_needs_the_token(server):
    for path in PATHS:
        for method in ("GET", "POST", "HEAD"):
            assert server.ask(path, method).status == 403, (method, path)
        assert server.ask(path, Cookie=f"gridveil-{server.port}=wrong").status == 403, path
    assert server.ask(f"/assets/app.js?token={server.token}").status == 403  # the link opens the first page alone
    assert server.ask(f"/?token={server.token}", "POST").status == 403
    assert server.ask(f"/?token={server.token}&token={server.token}").status == 403
    assert server.ask(f"/?token={server.token}").status == 200
    assert server.ask("/assets/app.js", Cookie=server.cookie).status == 200


def test_the_link_sets_a_cookie_that_no_script_and_no_other_site_can_use(server):
    answer = server.ask(f"/?token={server.token}")
    cookie = answer.getheader("Set-Cookie")
    assert cookie.startswith(server.cookie) and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert server.token not in answer.read().decode()
    assert answer.getheader("Cache-Control") == "no-store"
    policy = answer.getheader("Content-Security-Policy")
    assert "default-src 'none'" in policy and "unsafe-eval" not in policy and "http" not in policy


def test_another_host_name_is_refused(server):
    """A name of an outsider that is made to point to this computer (DNS rebinding)."""
    for host in (
        "evil.example",
        f"evil.example:{server.port}",
        "127.0.0.1",
        f"127.0.0.1.evil.example:{server.port}",
        "",
    ):
        assert server.ask("/", Host=host, Cookie=server.cookie).status == 403, host
        assert server.ask(f"/?token={server.token}", Host=host).status == 403, host
    assert server.ask("/", Host=f"localhost:{server.port}", Cookie=server.cookie).status == 200


def test_another_page_is_refused(server):
    own = f"http://127.0.0.1:{server.port}"
    for origin in (
        "https://evil.example",
        "null",
        "http://127.0.0.1:1",
        f"{own}.evil.example",
        f"http://localhost:{server.port}",
    ):
        assert server.ask("/session/x/upload/1", "POST", Cookie=server.cookie, Origin=origin).status == 403, origin
        assert server.ask("/", Cookie=server.cookie, Origin=origin).status == 403, origin
    for sender in ("cross-site", "same-site"):
        assert server.ask("/", Cookie=server.cookie, Sec_Fetch_Site=sender).status == 403
    assert server.ask("/", Cookie=server.cookie, Origin=own).status == 200


def test_the_websocket_is_refused_as_well(server):
    websockets = pytest.importorskip("websockets")

    async def status(**headers: str) -> int:
        try:
            async with websockets.connect(f"ws://127.0.0.1:{server.port}/websocket/", additional_headers=headers):
                return 101
        except websockets.exceptions.InvalidStatus as error:
            return error.response.status_code

    def of(**headers: str) -> int:
        return asyncio.run(status(**headers))

    own = f"http://127.0.0.1:{server.port}"
    assert of() == 403
    assert of(Cookie=f"gridveil-{server.port}=wrong", Origin=own) == 403
    assert of(Cookie=server.cookie, Origin="https://evil.example") == 403
    assert of(Cookie=server.cookie, Origin=own) == 101


def test_no_path_leads_out_of_the_releases(server):
    (server.data / "secret.txt").write_text("17")
    for path in (
        "../secret.txt",
        "..%2fsecret.txt",
        "%2e%2e/secret.txt",
        "x/../../secret.txt",
        "/etc/passwd",
        "..%5csecret.txt",
    ):
        answer = server.ask(f"/files/{path}", Cookie=server.cookie)
        assert answer.status == 404 and b"17" not in answer.read(), path
    for path in ("/assets/../run.py", "/assets/..%2frun.py", "/lib/../../app/run.py"):
        answer = server.ask(path, Cookie=server.cookie)
        assert answer.status in {403, 404} and b"import" not in answer.read(), path


def test_nothing_is_logged(server):
    server.ask(f"/?token={server.token}")
    server.ask("/files/nothing", Cookie=server.cookie)
    assert server.said == []


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is an address of its own on Linux alone")
def test_only_a_container_listens_on_other_addresses_and_is_guarded_in_the_same_way(server, tmp_path):
    with pytest.raises(ConnectionRefusedError):
        server.ask("/", address="127.0.0.2")
    with app_server(tmp_path, "veil9", "--port", str(free_port()), GRIDVEIL_CONTAINER="1") as inside:
        # The browser of the computer comes by way of the engine, from another address, under the name of the computer.
        here = f"127.0.0.1:{inside.port}"
        assert inside.url.startswith(f"http://{here}/")
        assert inside.ask(f"/?token={inside.token}", address="127.0.0.2", Host=here).status == 200
        assert inside.ask("/", address="127.0.0.2", Host=here, Cookie=inside.cookie).status == 200
        assert inside.ask("/", address="127.0.0.2", Host=here).status == 403
        assert inside.ask(f"/?token={inside.token}", address="127.0.0.2").status == 403  # named 127.0.0.2


def test_a_container_needs_a_stated_port(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDVEIL_CONTAINER", "1")
    told = cli("app", "--data", tmp_path / "data")
    assert told.code == 2 and "--publish 127.0.0.1:8321:8321" in told.err
