from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from review_data import ORIGIN, Page, copy_run
from starlette.testclient import TestClient

from surelabel.errors import OptionError
from surelabel.review.app import HERE, build_app
from surelabel.review.security import CONTENT_POLICY, MAX_BODY, AccessTokens, is_loopback
from surelabel.review.server import Address
from surelabel.runs.folder import RunFolder

READS = ["/", "/api/state", "/api/queue", "/api/search?q=a", "/api/events", "/image/" + "0" * 16]
READS += ["/api/gallery", "/api/gallery/counts", "/api/map", "/api/map/points", "/attention/0"]
READS += ["/api/similar?id=" + "0" * 16, "/api/journey", "/download/csv", "/report"]
CHANGES = ["/api/answers", "/api/undo", "/api/viewing", "/api/train", "/api/train/stop", "/api/map"]


@pytest.fixture(name="outsider")
def fixture_outsider(page: Page) -> TestClient:
    """A browser on this machine that never had a link."""
    return TestClient(page.app, base_url=ORIGIN, headers={"origin": ORIGIN})


@pytest.mark.parametrize("path", READS)
def test_without_the_link_nothing_is_shown(outsider: TestClient, path: str) -> None:
    response = outsider.get(path)
    assert response.status_code == 403
    assert "link" in response.text


@pytest.mark.parametrize("path", CHANGES)
def test_without_the_link_nothing_is_changed(outsider: TestClient, path: str, page: Page) -> None:
    assert outsider.post(path, json={}).status_code == 403
    assert page.folder.answers.last_seq() == 0


def test_a_link_works_once_and_the_next_is_announced(page: Page) -> None:
    told: list[str] = []
    tokens = AccessTokens(told.append)
    app = build_app(page.session, tokens)
    token = tokens.token
    first = TestClient(app, base_url=ORIGIN).get("/", params={"token": token})
    assert first.status_code == 200
    second = TestClient(app, base_url=ORIGIN).get("/", params={"token": token})
    assert second.status_code == 403
    assert told == [tokens.token] != [token]
    assert TestClient(app, base_url=ORIGIN).get("/", params={"token": told[0]}).status_code == 200


def test_a_used_link_leads_back_to_the_page_in_the_browser_that_used_it(page: Page) -> None:
    assert page.client.get("/", params={"token": "used"}).status_code == 200


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(page: Page) -> None:
    client = TestClient(page.app, base_url=ORIGIN, follow_redirects=False)
    cookie = client.get("/", params={"token": page.tokens.token}).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


@pytest.mark.parametrize("cookie", ["surelabel=", "surelabel=guess", "=;;", "surelabel"])
def test_a_made_up_cookie_is_refused(outsider: TestClient, cookie: str) -> None:
    assert outsider.get("/api/state", headers={"cookie": cookie}).status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example"])
@pytest.mark.parametrize("path", ["/", "/api/state", "/static/main.js"])
def test_a_foreign_name_for_this_machine_gets_nothing(page: Page, host: str, path: str) -> None:
    assert page.client.get(path, headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:1", "localhost", "[::1]:8000"])
def test_this_machine_may_be_called_by_its_own_names(page: Page, host: str) -> None:
    assert page.client.get("/api/state", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("path", CHANGES)
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:8000", "http://127.0.0.1:9000"]
)
def test_changes_come_from_the_page_itself(page: Page, path: str, origin: str) -> None:
    assert page.client.post(path, json={}, headers={"origin": origin}).status_code == 403


def test_a_change_without_origin_needs_sec_fetch_site(page: Page) -> None:
    client = TestClient(page.app, base_url=ORIGIN, cookies=page.client.cookies)
    body = {"client": "c1", "id": None}
    assert client.post("/api/viewing", json=body).status_code == 403
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200)):
        headers = {"sec-fetch-site": site}
        assert client.post("/api/viewing", json=body, headers=headers).status_code == status


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/api/state", "/nowhere", "/image/x"])
def test_every_response_forbids_content_from_elsewhere(page: Page, path: str) -> None:
    headers = page.client.get(path).headers
    assert headers["content-security-policy"] == CONTENT_POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "unsafe" not in CONTENT_POLICY
    assert "http" not in CONTENT_POLICY


@pytest.mark.parametrize(
    "name",
    ["..%2f..%2fetc%2fpasswd", "across-00.png", "/etc/passwd", "0" * 15, "0" * 16, "G" * 16],
)
def test_images_are_found_by_id_only(page: Page, name: str) -> None:
    assert page.client.get(f"/image/{name}").status_code in {404, 422}


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd"]
)
def test_static_files_are_those_of_the_page_only(page: Page, path: str) -> None:
    assert page.client.get(path).status_code == 404


def test_names_are_text_and_never_html(trained: Path, tmp_path: Path) -> None:
    page = Page(copy_run(trained, tmp_path / "<img src=x onerror=alert(1)>"))
    text = page.client.get("/").text
    assert "<img src=x" not in text
    assert "&lt;img src=x" in text


class InlineContent(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        if tag == "style" or (tag == "script" and "src" not in names):
            self.inline.append(tag)
        self.inline += [name for name in names if name.startswith("on") or name == "style"]


def test_the_page_has_nothing_inline_and_loads_nothing_from_elsewhere(page: Page) -> None:
    text = page.client.get("/").text
    parser = InlineContent()
    parser.feed(text)
    assert parser.inline == []
    for file in HERE.glob("static/*"):
        content = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in content
        assert "https:" not in content
        assert "innerHTML" not in content
    assert "//" not in text.replace("</", "")


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.org"])
def test_other_machines_are_let_in_only_when_asked_for(host: str) -> None:
    with pytest.raises(OptionError, match="--expose"):
        Address(host).check()
    Address(host, exposed=True).check()


def test_loopback_addresses() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.3.2.1", "::1", "localhost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "10.0.0.1", "::", "localhost.example.org"]))


def test_a_wider_binding_answers_to_addresses_but_not_to_foreign_names(folder: RunFolder) -> None:
    page = Page(folder)
    app = build_app(page.session, page.tokens, any_address=True)
    client = TestClient(app, base_url="http://192.168.1.5:8000")
    assert client.get("/", params={"token": page.tokens.token}).status_code == 200
    assert client.get("/", headers={"host": "evil.example:8000"}).status_code == 421


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"answers": []},
        {"answers": [{"id": "../../etc", "kind": "none", "expected_seq": 0}]},
        {"answers": [{"id": "0" * 16, "kind": "nonsense", "expected_seq": 0}]},
        {"answers": [{"id": "0" * 16, "kind": "none", "expected_seq": -1}]},
        {"answers": [{"id": "0" * 16, "kind": "none", "expected_seq": 0}], "more": 1},
    ],
)
def test_requests_that_make_no_sense_are_refused(page: Page, body: dict[str, object]) -> None:
    assert page.post("/api/answers", **body).status_code == 422
    assert page.folder.answers.last_seq() == 0


@pytest.mark.parametrize("path", ["/api/answers", "/api/undo", "/api/viewing", "/api/train"])
def test_a_huge_body_is_refused_before_it_is_kept(page: Page, path: str) -> None:
    seen = 0

    def endless() -> Iterator[bytes]:
        nonlocal seen
        for _ in range(10_000):
            seen += 2**16
            yield b"x" * 2**16

    stated = page.client.post(path, content=b"x" * (MAX_BODY + 1))
    assert stated.status_code == 413
    assert page.client.post(path, content=endless()).status_code == 413
    assert page.folder.answers.last_seq() == 0


@pytest.mark.parametrize(
    "text",
    [
        '{"reviewer": NaN}',
        '{"reviewer": "a", "client": "c", "answers": [{"id": NaN, "expected_seq": Infinity}]}',
        '{"\\ud800": 1}',
        '{"reviewer": "\\ud800", "client": "c", "answers": []}',
        '{"reviewer": "a\\nb", "client": "c", "answers": []}',
        "NaN",
        "[" * 100_000,
        "1" * 5000,
        '"\\ud800"',
        "\x00",
    ],
)
@pytest.mark.parametrize("path", ["/api/answers", "/api/undo", "/api/viewing"])
def test_odd_json_is_refused_and_changes_nothing(page: Page, path: str, text: str) -> None:
    headers = {"content-type": "application/json"}
    response = page.client.post(path, content=text.encode("utf-8"), headers=headers)
    assert response.status_code in (400, 422)
    assert page.folder.answers.last_seq() == 0


def test_half_characters_in_a_reviewers_name_are_refused(page: Page) -> None:
    (item_id, *_) = page.session.queue.ids
    answer = {"id": item_id, "kind": "none", "expected_seq": 0}
    body = {"reviewer": "\ud800", "client": "c", "answers": [answer]}
    headers = {"content-type": "application/json"}
    response = page.client.post("/api/answers", content=json.dumps(body), headers=headers)
    assert response.status_code == 422
    assert page.folder.answers.last_seq() == 0
