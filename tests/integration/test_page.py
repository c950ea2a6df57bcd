"""The page in Airflow's UI: a real api-server, its users' rights, and a real browser."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from markupsafe import escape

from airflow_provider_binlog.checkpoint import Checkpoint
from tests.services.chromium import ARGUMENTS, find_chromium
from tests.services.progress import ServiceError
from tests.support.api_server import ApiServer
from tests.support.page import HOSTILE, Shop, create_shop
from tests.unit.plugins.test_pages import list_of_sources, pages_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.services.servers import Server
    from tests.support.api_server import Answer

pytestmark = pytest.mark.server

_TABLES = 1000
_KEY = "binlog_checkpoint_shop"


@pytest.fixture(scope="module")
def shop(
    mysql97: Server,
    airflow_database: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Shop]:
    """Two captured ranges, of which the first is merged, and 1,000 more tables."""
    from tests.fixtures.mysql import Database, execute

    name = "page"
    execute(mysql97, f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    shop = create_shop(Database(mysql97, name), airflow_database, tmp_path_factory.mktemp("page"))
    try:
        shop.note_merge(1, more=_TABLES)
        yield shop
    finally:
        shop.server.stop()
        execute(mysql97, f"DROP DATABASE {name}")


def address(page: str, /, **query: Any) -> str:
    """Return the path of a page of the source."""
    return f"/binlog/{page}?{urlencode({'dag_id': 'shop', 'name': 'shop', **query}, doseq=True)}"


def get(shop: Shop, page: str, user: str | None = "admin", /, **query: Any) -> Answer:
    return shop.server.request("GET", address(page, **query), user=user)


def post(shop: Shop, page: str, user: str | None, form: Any, **headers: str) -> Answer:
    given = headers or {"sec_fetch_site": "same-origin"}
    return shop.server.request("POST", address(page), user=user, form=form, **given)


def checkpoint(shop: Shop) -> str:
    answer = shop.server.request("GET", f"/api/v2/variables/{_KEY}", user="admin")
    return str(answer.json["value"])


# ------------------------------------------------------------------- rights


_PAGES: dict[str, dict[str, Any]] = {
    "": {},
    "source": {},
    "manifest": {"sequence": 1},
    "events": {"position": "binlog.000001:4"},
    "reload": {"table": "page.orders"},
    "checkpoint": {"sequence": 1},
    "error": {"name": "MergeError"},
}


@pytest.mark.parametrize("page", _PAGES)
def test_nobody_sees_anything_without_a_login(shop: Shop, page: str) -> None:
    answer = get(shop, page, None, **_PAGES[page])

    assert answer.status == 401
    assert "log in" in answer.text
    assert "shop" not in answer.text
    assert get(shop, page, None, **{**_PAGES[page], "dag_id": "~"}).status == 401


def test_whoever_sees_the_dag_sees_its_source_and_who_may_trigger_it_can_act(shop: Shop) -> None:
    for page in ("", "source", "manifest", "error"):
        assert get(shop, page, "viewer", **_PAGES[page]).status == 200
    for page in ("events", "reload", "checkpoint"):
        assert get(shop, page, "viewer", **_PAGES[page]).status == 403
        assert get(shop, page, "user", **_PAGES[page]).status != 403
    viewer, user = get(shop, "source", "viewer").text, get(shop, "source", "user").text
    assert "Reload" not in viewer
    assert "airflow binlog reload" in viewer
    (table,) = shop.names(HOSTILE)
    assert escape(shlex.quote(table)) in viewer
    assert "Reload" in user
    # The checkpoint is a Variable, which neither may see.
    assert "you may not see Variables" in viewer
    assert "you may not see Variables" in user
    assert checkpoint_position(shop) in get(shop, "source", "op").text


def checkpoint_position(shop: Shop) -> str:
    return str(Checkpoint.decode(checkpoint(shop)).position)


@pytest.mark.parametrize("dag_id", ["~", "another", "", "../shop", "shop/../../x"])
def test_another_dag_has_no_source_here(shop: Shop, dag_id: str) -> None:
    for page in ("source", "manifest", "events"):
        answer = get(shop, page, "admin", **{**_PAGES[page], "dag_id": dag_id})
        assert answer.status in (404, 422)


# ------------------------------------------------------------------- what a browser is forbidden


def test_every_answer_forbids_scripts_frames_and_files_of_others(shop: Shop) -> None:
    for answer in (get(shop, ""), get(shop, "source"), get(shop, "none"), get(shop, "", None)):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


def test_names_and_values_are_text(shop: Shop) -> None:
    pages = [
        get(shop, "source", q=HOSTILE),
        get(shop, "source", q="<script>", state="<script>", run="<script>1"),
        get(shop, "manifest", sequence=1),
        get(shop, "reload", table=f"page.{HOSTILE}"),
        get(shop, "source", name="<script>"),
        shop.server.request("GET", "/binlog/?q=<script>", user="admin"),
    ]

    for answer in pages:
        assert "<img" not in answer.text
        assert not re.search(r"<script(?! src=)", answer.text)
        assert "49" not in re.findall(r"onerror=alert\(1\)&gt;.{0,40}", answer.text)
    assert "&lt;img src=x onerror=alert(1)&gt;" in pages[0].text


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "none"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"x_nothing": "said"},
    ],
)
def test_a_form_of_another_site_does_nothing(shop: Shop, headers: dict[str, str]) -> None:
    runs = shop.query("SELECT count(*) FROM dag_run")
    before = checkpoint(shop)

    form = {"table": "page.orders", "sequence": "1", "expected": before}
    assert post(shop, "reload", "admin", form, **headers).status == 403
    assert post(shop, "checkpoint", "admin", form, **headers).status == 403

    assert shop.query("SELECT count(*) FROM dag_run") == runs
    assert checkpoint(shop) == before


# ------------------------------------------------------------------- what a source shows


def test_the_source_shows_what_the_server_and_the_manifests_say(shop: Shop) -> None:
    text = get(shop, "source").text
    manifest = json.loads(next(shop.staging.glob("shop/manifests/*2.json")).read_bytes())

    assert f"{manifest['stop']['file']}:{manifest['stop']['offset']}" in text
    assert manifest["stop"]["gtid"] in text
    (end,) = shop.database.query("SHOW BINARY LOG STATUS")
    assert f"{end[0]}:{end[1]}" in text
    for state in ("stale", "suspect", "loading", "live"):
        assert f'class="state {state}"' in text
    assert "rows were removed" in text
    assert "Range 2</a>: 2 rows in 1 table" in text
    assert 'class="state failed"' in text


def test_a_thousand_tables_are_shown_by_pages_and_searched(shop: Shop) -> None:
    first, last = get(shop, "source").text, get(shop, "source", page=11).text

    assert first.count('<th scope="row">') == 100
    assert "many.table_0999" in last
    found = get(shop, "source", q="TABLE_07").text
    assert found.count('<th scope="row">') == 100
    assert f"100 of {_TABLES + 4:,}" in found
    stale = get(shop, "source", state="stale").text
    assert stale.count('<th scope="row">') == 1
    assert "No table matches" in get(shop, "source", q="nothing like it").text
    assert get(shop, "source", page=10**15).status == 200


def test_a_manifest_shows_its_tables_and_positions(shop: Shop) -> None:
    text = get(shop, "manifest", sequence=1).text

    assert "CREATE TABLE orders" in text
    for name in shop.names("orders", "items", "visits"):
        assert name in text
    newest = int(max(each.stem for each in shop.staging.glob("shop/manifests/*")))
    assert ">next</a>" in text
    assert ">next</a>" not in get(shop, "manifest", sequence=newest).text
    for sequence in (0, newest + 1):
        answer = get(shop, "manifest", sequence=sequence)
        assert answer.status == 404
        assert f"No manifest {sequence} of shop is staged." in answer.text


def test_events_are_those_of_the_server(shop: Shop) -> None:
    stop = json.loads(next(shop.staging.glob("shop/manifests/*1.json")).read_bytes())["stop"]
    at = f"{stop['file']}:{stop['offset']}"

    text = get(shop, "events", "user", position=at).text

    shown = re.findall(r"<tr.*?<code>(.*?)</code></td><td>(.*?)</td>", text)
    events = shop.database.query(
        f"SHOW BINLOG EVENTS IN '{stop['file']}' FROM {stop['offset']} LIMIT 4"
    )
    after = [(f"{row[0]}:{row[1]}", row[2]) for row in events]
    index = [position for position, _ in shown].index(at)
    assert index > 0
    assert shown[index : index + 4] == after
    for wrong in (f"{stop['file']}:{stop['offset'] + 1}", "nothing", "binlog.999999:4"):
        answer = get(shop, "events", "user", position=wrong)
        assert answer.status == 409
        assert re.search(r'href="error\?name=\w+Error">What to do</a>', answer.text)


# ------------------------------------------------------------------- actions, as the person


def test_a_reload_is_a_run_that_airflow_notes_the_person_for(shop: Shop) -> None:
    tables = shop.names("items", HOSTILE)

    assert post(shop, "reload", "viewer", {"table": tables}).status == 403
    assert post(shop, "reload", None, {"table": tables}).status == 401
    assert post(shop, "reload", "user", {}).status == 409
    assert post(shop, "reload", "user", {"table": "orders"}).status == 409
    answer = post(shop, "reload", "user", {"table": tables})

    assert answer.status == 303
    (run_id,) = parse_qs(urlsplit(answer.headers["location"]).query)["run"]
    run = shop.server.request("GET", f"/api/v2/dags/shop/dagRuns/{run_id}", user="admin").json
    assert run["conf"] == {"reload": tables}
    assert run["triggering_user_name"] == "user"
    assert ("trigger_dag_run", "user") in shop.query("SELECT event, owner FROM log")
    assert run_id in get(shop, "source", "user", run=run_id).text
    shop.server.request("DELETE", f"/api/v2/dags/shop/dagRuns/{run_id}", user="admin")


def test_a_checkpoint_is_set_by_who_may_change_the_variable(shop: Shop) -> None:
    before = checkpoint(shop)
    saved = Checkpoint.decode(before)
    assert saved.sequence == 2
    form = {"sequence": "1", "expected": before}

    assert "Set the checkpoint" in get(shop, "checkpoint", "op", sequence=1).text
    # The right to trigger the DAG is not the right to change a Variable.
    assert post(shop, "checkpoint", "user", form).status == 403
    assert post(shop, "checkpoint", "op", {**form, "expected": "{}"}).status == 409
    assert post(shop, "checkpoint", "op", {**form, "sequence": "7"}).status == 409
    assert post(shop, "checkpoint", "op", {**form, "sequence": "x"}).status == 422
    assert checkpoint(shop) == before
    assert post(shop, "checkpoint", "op", form).status == 303

    moved = Checkpoint.decode(checkpoint(shop))
    first = json.loads(next(shop.staging.glob("shop/manifests/*1.json")).read_bytes())
    assert (moved.sequence, moved.position.to_json()["offset"]) == (1, first["stop"]["offset"])
    assert moved.saved_by.startswith("op")
    assert ("patch_variable", "op") in shop.query("SELECT event, owner FROM log")
    # A second one, of a person who saw what is no more.
    assert post(shop, "checkpoint", "op", {**form, "sequence": "2"}).status == 409
    again = {"sequence": "2", "expected": checkpoint(shop)}
    assert post(shop, "checkpoint", "op", again).status == 303
    assert Checkpoint.decode(checkpoint(shop)).same_position(saved)


def test_a_lost_checkpoint_is_restored_from_the_manifests(shop: Shop) -> None:
    before = Checkpoint.decode(checkpoint(shop))
    shop.server.request("DELETE", f"/api/v2/variables/{_KEY}", user="admin")

    assert "It was lost" in get(shop, "source", "op").text
    assert post(shop, "checkpoint", "op", {"sequence": "2", "expected": ""}).status == 303
    assert Checkpoint.decode(checkpoint(shop)).same_position(before)
    assert ("post_variable", "op") in shop.query("SELECT event, owner FROM log")


@pytest.mark.slow
def test_what_cannot_be_reached_is_named_and_the_rest_is_shown(shop: Shop) -> None:
    shop.run_dags("moved", "broken")

    moved = get(shop, "source", dag_id="moved").text
    assert "The server&#39;s log cannot be read now." in moved
    assert "Range 2</a>: 2 rows" in moved
    assert 'class="state stale"' in moved
    broken = get(shop, "source", dag_id="broken", name="broken").text
    assert "The staged files cannot be read now." in broken
    assert "the connection of this location does not exist" in broken
    both = shop.server.request("GET", "/binlog/", user="admin").text
    assert "The staged files cannot be read" in both
    assert ">shop</a>" in both
    manifest = get(shop, "manifest", dag_id="broken", name="broken", sequence=1)
    assert manifest.status == 409
    explained = '<a href="error?name=ConnectionLostError">What to do</a>'
    assert explained in moved
    assert explained in both


@pytest.mark.slow
def test_the_ui_may_have_a_path_of_its_own(shop: Shop) -> None:
    server = ApiServer.start(shop.home, shop.variables, path="/af")
    try:
        server.await_health()
        text = server.request("GET", address("source"), user="admin").text
        assert 'href="/af/dags/shop"' in text
        assert "Range 2</a>: 2 rows" in text
        plugins = server.request("GET", "/api/v2/plugins", user="admin").json["plugins"]
        (plugin,) = (each for each in plugins if each["name"] == "binlog")
        assert plugin["external_views"][0]["href"] == "/af/binlog/"
    finally:
        server.stop()


# ------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    try:
        chromium = find_chromium()
    except ServiceError as error:
        pytest.skip(f"there is no Chromium: {error}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(chromium.program), args=list(ARGUMENTS), env=dict(chromium.env)
        )
        yield browser
        browser.close()


@pytest.fixture
def open_page(shop: Shop, browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a page as a user; what the browser complains about fails the test."""
    contexts, complaints = [], []

    def open_(path: str, user: str = "admin", **options: Any) -> Page:
        context = browser.new_context(**options)
        contexts.append(context)
        context.add_cookies(
            [{"name": "_token", "value": shop.server.token(user), "url": shop.server.url}]
        )
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.goto(f"{shop.server.url}{path}")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []


def test_in_airflows_ui_a_stale_table_is_reloaded_by_its_button(
    shop: Shop, open_page: Callable[..., Page]
) -> None:
    page = open_page("/plugin/binlog")
    frame = page.frame_locator("iframe")
    frame.get_by_role("link", name="shop", exact=True).click()
    row = frame.get_by_role("row").filter(has_text="rows were removed")
    row.get_by_role("link", name="Reload…").click()
    frame.get_by_role("heading", name="Reload 1 table?").wait_for()
    frame.get_by_role("button", name="Reload", exact=True).click()
    run = frame.locator(".notice.good").get_by_role("link")
    run_id = run.inner_text()

    ((conf,),) = shop.query(f"SELECT conf FROM dag_run WHERE run_id = '{run_id}'")
    assert json.loads(conf) == {"reload": shop.names("items")}
    # The frame may not navigate the window, and its links to Airflow's pages do all the same.
    run.click()
    page.wait_for_url(re.compile(r"/dags/shop/runs/"))
    shop.server.request("DELETE", f"/api/v2/dags/shop/dagRuns/{run_id}", user="admin")


@pytest.mark.slow
def test_one_searches_while_typing_and_the_focus_stays(open_page: Callable[..., Page]) -> None:
    page = open_page(address("source"))
    search = page.get_by_role("searchbox", name="Search")
    search.press_sequentially("table_0123")

    page.get_by_text(f"1 of {_TABLES + 4:,}").wait_for()
    assert search.evaluate("each => each === document.activeElement")
    search.press_sequentially("x")
    page.get_by_text("No table matches.").wait_for()
    assert "q=table_0123x" in page.url


@pytest.mark.slow
def test_the_page_shows_what_changes_without_being_loaded_again(
    shop: Shop, open_page: Callable[..., Page]
) -> None:
    page = open_page(address("source", state="stale"))
    page.evaluate("window.loaded = 1")
    page.get_by_text("rows were removed").wait_for()
    shop.note_merge(2, more=1)
    try:
        page.get_by_text("1 of 5").wait_for(timeout=60_000)
        assert page.evaluate("window.loaded") == 1
    finally:
        shop.note_merge(1, more=_TABLES)


@pytest.mark.slow
def test_a_page_that_cannot_be_refreshed_says_so(
    shop: Shop, open_page: Callable[..., Page]
) -> None:
    page = open_page(address("source", state="stale"))
    cookies = page.context.cookies()
    page.context.clear_cookies()
    alert = page.locator("#outdated")
    alert.filter(has_text="Your session has ended: log in").wait_for(timeout=60_000)
    page.context.add_cookies(cast("Any", cookies))
    alert.wait_for(state="detached", timeout=60_000)

    page.route("**/binlog/source?*", lambda route: route.fulfill(status=502, body="none"))
    alert.filter(has_text="Airflow answered with another page (502).").wait_for(timeout=60_000)
    page.context.set_offline(True)
    page.unroute("**/binlog/source?*")
    # Also where one searches meanwhile.
    page.get_by_role("searchbox", name="Search").press_sequentially("items")
    alert.filter(has_text="Airflow does not answer.").wait_for(timeout=60_000)
    assert page.locator("tbody .state").inner_text() == "stale"
    page.context.set_offline(False)
    page.get_by_role("searchbox", name="Search").press("s")
    page.get_by_text("No table matches.").wait_for()
    assert alert.count() == 0


@pytest.mark.slow
def test_an_error_leads_to_what_the_docs_say_of_it(open_page: Callable[..., Page]) -> None:
    page = open_page(address("events", position="nothing"))
    page.get_by_role("heading", name="It did not work").wait_for()
    page.get_by_role("link", name="What to do").click()
    page.get_by_role("heading", name="FormatError").wait_for()
    page.get_by_role("link", name="All errors").click()
    page.get_by_role("heading", name="MergeError", exact=True).wait_for()


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 100])
def test_no_source_and_a_hundred_are_a_list(
    count: int, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    answers = list_of_sources(count, tmp_path)
    page = open_page("/binlog/error", viewport={"width": 360, "height": 800})
    # The browser has a loop of its own in this thread.
    with ThreadPoolExecutor() as pool:
        shown = pool.submit(asyncio.run, pages_of(answers).sources("")).result()
    page.route("**/binlog/", lambda route: route.fulfill(body=shown, content_type="text/html"))
    page.get_by_role("link", name="Sources").click()
    page.get_by_role("heading", name="Sources").wait_for()

    assert page.get_by_role("rowheader").count() == count
    assert page.get_by_text("There is no source yet.").count() == (count == 0)
    assert page.get_by_text("100 of 100").count() == (count == 100)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.slow
def test_a_keyboard_reaches_everything(open_page: Callable[..., Page]) -> None:
    page = open_page(address("source", state="stale"))
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.innerText || document.activeElement.name")
        )

    assert {"Skip to the content", "Sources", "GTIDs", "q", "Reload…", "Range 2"} <= reached
    assert page.evaluate(
        "getComputedStyle(document.activeElement).outlineStyle !== 'none' "
        "|| document.activeElement === document.body"
    )
    # What the bars of a chart say, and where they lead.
    page.locator("#rows-list summary").focus()
    for key in ("Enter", "Tab"):
        page.keyboard.press(key)
    assert "Manifest 1, " in page.evaluate("document.activeElement.innerText")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Manifest 1").wait_for()
    page.go_back()
    stages = page.get_by_role("listitem").filter(has_text=re.compile("^Stage, .*: success"))
    assert stages.count() == 0
    page.locator("#runs-list summary").press("Enter")
    stages.wait_for()


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1400])
def test_no_page_is_wider_than_the_window(
    width: int, shop: Shop, open_page: Callable[..., Page]
) -> None:
    stop = json.loads(next(shop.staging.glob("shop/manifests/*1.json")).read_bytes())["stop"]
    given = _PAGES | {
        "events": {"position": f"{stop['file']}:{stop['offset']}"},
        "reload": {"table": shop.names("orders", HOSTILE, "x" * 64)},
        "nothing": {},
    }
    page = open_page("/binlog/", viewport={"width": width, "height": 800})
    for name, query in given.items():
        page.goto(f"{shop.server.url}{address(name, **query)}")
        page.get_by_role("heading", level=1).wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name


@pytest.mark.slow
def test_it_follows_the_theme_of_airflow(open_page: Callable[..., Page]) -> None:
    page = open_page(address("source"), color_scheme="dark")
    color = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(color)
    page.evaluate("localStorage.setItem('theme', 'light')")
    page.reload()

    light = page.evaluate(color)
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(17, 20, 24)")
