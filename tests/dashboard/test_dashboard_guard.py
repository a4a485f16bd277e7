"""Who may ask a dashboard, and what a browser may do with its answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from lego_verl.dashboard.__main__ import _address, main
from lego_verl.dashboard.app import create_app
from lego_verl.dashboard.guard import is_loopback, new_token
from lego_verl.dashboard.runs import Runs
from lego_verl.monitor.run_folder import RunFolder

TOKEN = "correct-horse-battery"


@pytest.fixture
def app(tmp_path: Path) -> Any:
    RunFolder(tmp_path / "one").create()
    return create_app(Runs([tmp_path / "one"]), token=TOKEN, loopback=False, cookie="lego_verl_1")


def test_others_need_the_token(app: Any) -> None:
    client = TestClient(app, base_url="http://training-box:8420")
    for path in ("/api/runs", "/api/runs/one", "/api/runs/one/stream", "/api/outcomes"):
        answer = client.get(path)
        assert answer.status_code == 401, path
        assert "token" in answer.json()["error"]
    assert client.get("/api/runs?token=wrong").status_code == 401
    assert client.get("/api/runs", headers={"cookie": "lego_verl_1=wrong"}).status_code == 401
    assert client.get("/").status_code == 200  # the page holds nothing of a run


def test_the_token_is_given_once(app: Any) -> None:
    client = TestClient(app, base_url="http://training-box:8420")
    first = client.get(f"/?token={TOKEN}")
    assert first.status_code == 200
    kept = first.headers["set-cookie"]
    assert "HttpOnly" in kept
    assert "SameSite=Strict" in kept
    assert client.get("/api/runs").status_code == 200
    assert TestClient(app, base_url="http://training-box:8420").get("/api/runs").status_code == 401


def test_without_a_token_it_is_for_this_machine_only(tmp_path: Path) -> None:
    RunFolder(tmp_path / "one").create()
    with pytest.raises(ValueError, match="token"):
        create_app(Runs([tmp_path / "one"]), loopback=False)
    app = create_app(Runs([tmp_path / "one"]))
    for host in ("127.0.0.1:8420", "localhost:9", "[::1]:8420", "localhost"):
        assert TestClient(app, base_url=f"http://{host}").get("/api/runs").status_code == 200, host
    for host in ("evil.example", "evil.example:8420", "127.0.0.1.evil.example", "10.0.0.7:8420", ""):
        answer = TestClient(app, base_url="http://localhost").get("/api/runs", headers={"host": host})
        assert answer.status_code == 421, host
        assert TestClient(app, base_url="http://localhost").get("/", headers={"host": host}).status_code == 421


def test_another_sites_page_may_not_ask(tmp_path: Path) -> None:
    RunFolder(tmp_path / "one").create()
    client = TestClient(create_app(Runs([tmp_path / "one"])), base_url="http://localhost:8420")
    assert client.get("/api/runs", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert client.get("/api/runs", headers={"sec-fetch-site": "same-origin"}).status_code == 200
    assert "access-control-allow-origin" not in client.get("/api/runs", headers={"origin": "http://evil"}).headers


@pytest.mark.parametrize(
    "path", ["/", "/api/runs", "/page/style.css", "/page/core/app.js", "/nothing", "/plotly.min.js"]
)
def test_every_answer_says_what_a_browser_may_do(client: Any, path: str) -> None:
    headers = client.get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_the_page_takes_nothing_from_outside() -> None:
    page = Path(__file__).parents[2] / "lego_verl" / "dashboard" / "page"
    for path in [*page.rglob("*.js"), *page.rglob("*.html"), *page.rglob("*.css")]:
        text = path.read_text()
        for never in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "https://",
            "new Function",
        ):
            assert never not in text, f"{path.name}: {never}"
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", ""), path.name


def test_plotly_comes_from_its_package(client: Any) -> None:
    answer = client.get("/plotly.min.js", headers={"accept-encoding": "gzip"})
    assert answer.headers["content-type"].startswith("text/javascript")
    assert len(answer.content) > 1_000_000
    again = client.get("/plotly.min.js", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_tokens_and_addresses() -> None:
    assert len(new_token()) >= 32
    assert new_token() != new_token()
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("LOCALHOST")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("localhost.evil.example")
    assert _address("127.0.0.1", 8420, None, ("a b",)) == "http://127.0.0.1:8420/#/run/a%20b/overview"
    assert _address("::1", 8420, TOKEN, ("a", "b")) == f"http://[::1]:8420/?token={TOKEN}"


def test_the_command_line_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "missing")]) == 2
    assert "there is no such folder" in capsys.readouterr().err
    RunFolder(tmp_path / "one").create()
    assert main([str(tmp_path / "one"), "--token", "short"]) == 1
    assert "12 characters" in capsys.readouterr().err
