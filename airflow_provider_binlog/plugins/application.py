"""The page's application: routes, who may use them, and what every answer forbids a browser.

Airflow mounts it without any check. A route that names a DAG needs the right to see that DAG's task
instances, an action the right to trigger it, as Airflow's own routes do.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.sdk import conf
from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException as RoutingError

from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.operators.links import page_url
from airflow_provider_binlog.plugins.airflow_api import AirflowApi, AirflowRefusedError
from airflow_provider_binlog.plugins.binlog import AIRFLOW_APP
from airflow_provider_binlog.plugins.help import read_sections
from airflow_provider_binlog.plugins.pages import Pages
from airflow_provider_binlog.plugins.rendering import render

_STATIC = Path(__file__).parent / "static"
_TOKEN_SECONDS = 60
_FORM_BYTES_MAX = 1 << 20

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""What every answer says: only our own files are loaded, and only Airflow's UI embeds the page."""

_RIGHT_TO_SEE = DagAccessEntity.TASK_INSTANCE
_RIGHT_TO_ACT = DagAccessEntity.RUN


def _named_dag(dag_id: Annotated[str, Query(min_length=1, max_length=250)]) -> str:
    if dag_id == "~":  # For Airflow's API it means all DAGs.
        raise HTTPException(404, "There is no such DAG.")
    return dag_id


def _from_page(request: Request) -> None:
    """Refuse a form that another site sent with the person's cookie.

    Browsers say where a request comes from, in headers that no script can set: over HTTP the older
    one alone. A proxy may have changed the host, but then `[api] base_url` has it.
    """
    site = request.headers.get("sec-fetch-site")
    if site is None:
        own = {
            request.headers.get("host"),
            urlsplit(conf.get("api", "base_url", fallback="")).netloc,
        }
        origin = urlsplit(request.headers.get("origin", "")).netloc
        site = "same-origin" if origin and origin in own else "unknown"
    if site != "same-origin":
        raise HTTPException(403, "The request does not come from this page.")


_SEE_ALL = [Depends(requires_access_dag("GET", _RIGHT_TO_SEE))]
_SEE = [*_SEE_ALL, Depends(_named_dag)]
_ACT = [*_SEE, Depends(requires_access_dag("POST", _RIGHT_TO_ACT))]
_SUBMIT = [Depends(_from_page), *_ACT]

Name = Annotated[str, Query(min_length=1, max_length=1000)]
Text = Annotated[str, Query(max_length=1000)]
Number = Annotated[int, Query(ge=0, le=10**16)]


def _pages(request: Request, user: GetUserDep) -> Pages:
    """Return the pages for a person."""
    token = get_auth_manager().generate_jwt(user, expiration_time_in_seconds=_TOKEN_SECONDS)
    api = AirflowApi(request.scope[AIRFLOW_APP], token)

    async def may_act(dag_id: str) -> bool:
        check = requires_access_dag("POST", _RIGHT_TO_ACT, param_dag_id=dag_id)
        try:
            await run_in_threadpool(check, request, user)
        except HTTPException:
            return False
        return True

    return Pages(api, user.get_name(), may_act)


PagesDep = Annotated[Pages, Depends(_pages)]


async def _show_sources(pages: PagesDep, q: Text = "") -> Response:
    return HTMLResponse(await pages.sources(q))


async def _show_source(
    *,
    pages: PagesDep,
    dag_id: Name,
    name: Name,
    q: Text = "",
    state: Text = "",
    page: Number = 1,
    run: Text = "",
) -> Response:
    return HTMLResponse(
        await pages.source(dag_id, name, search=q, state=state, page=page, triggered=run)
    )


async def _show_manifest(pages: PagesDep, dag_id: Name, name: Name, sequence: Number) -> Response:
    return HTMLResponse(await pages.manifest(dag_id, name, sequence))


async def _show_events(pages: PagesDep, dag_id: Name, name: Name, position: Name) -> Response:
    return HTMLResponse(await pages.events(dag_id, name, position))


def _show_help(name: Text = "") -> Response:
    sections = read_sections()
    if name and name not in sections:
        raise HTTPException(404, "There is no such error.")
    return HTMLResponse(render("section.html", name=name, sections=sections))


async def _confirm_reload(
    pages: PagesDep, dag_id: Name, name: Name, table: Annotated[list[str], Query()]
) -> Response:
    return HTMLResponse(await pages.confirm_reload(dag_id, name, table))


async def _reload(request: Request, pages: PagesDep, dag_id: Name, name: Name) -> Response:
    form = await _read_form(request)
    run_id = await pages.reload(dag_id, name, form.get("table", []))
    return _see_other(dag_id=dag_id, name=name, run=run_id)


async def _confirm_checkpoint(
    pages: PagesDep, dag_id: Name, name: Name, sequence: Number
) -> Response:
    return HTMLResponse(await pages.confirm_checkpoint(dag_id, name, sequence))


async def _set_checkpoint(request: Request, pages: PagesDep, dag_id: Name, name: Name) -> Response:
    form = await _read_form(request)
    sequence, expected = (form.get(field, [""])[0] for field in ("sequence", "expected"))
    if not sequence.isascii() or not sequence.isdigit():
        raise HTTPException(422, "sequence is a number.")
    await pages.set_checkpoint(dag_id, name, int(sequence), expected)
    return _see_other(dag_id=dag_id, name=name)


async def _read_form(request: Request) -> dict[str, list[str]]:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _FORM_BYTES_MAX:
            raise HTTPException(413, "The form is too large.")
    try:
        return parse_qs(body.decode(), keep_blank_values=True)
    except UnicodeDecodeError:
        raise HTTPException(422, "The form is not in UTF-8.") from None


def _see_other(**query: str) -> Response:
    address = page_url("source", **query).partition("?")[2]
    return RedirectResponse(f"source?{address}", status_code=303)


def _static(file: str) -> Callable[[], Response]:
    def send() -> Response:
        return FileResponse(_STATIC / file, headers={"Cache-Control": "max-age=3600"})

    return send


def make_application() -> FastAPI:
    """Return the application."""
    app = FastAPI(title="Binlog", docs_url=None, redoc_url=None, openapi_url=None)
    for path, show, rights in (
        ("/", _show_sources, _SEE_ALL),
        ("/error", _show_help, _SEE_ALL),
        ("/source", _show_source, _SEE),
        ("/manifest", _show_manifest, _SEE),
        ("/events", _show_events, _ACT),
        ("/reload", _confirm_reload, _ACT),
        ("/checkpoint", _confirm_checkpoint, _ACT),
    ):
        app.get(path, dependencies=rights)(show)
    app.post("/reload", dependencies=_SUBMIT)(_reload)
    app.post("/checkpoint", dependencies=_SUBMIT)(_set_checkpoint)
    for file in ("page.css", "page.js"):
        # No secret, and a page of an error needs them.
        app.get(f"/static/{file}")(_static(file))

    @app.middleware("http")
    async def add_headers(request: Request, call_next: Callable[[Request], Any]) -> Response:
        response: Response = await call_next(request)
        for header, value in _HEADERS.items():
            response.headers.setdefault(header, value)
        return response

    app.add_exception_handler(RoutingError, _show_http_error)
    app.add_exception_handler(BinlogError, _show_error)
    app.add_exception_handler(Exception, _show_bug)
    return app


_TITLES = {401: "Not logged in", 403: "Not allowed", 404: "Not found"}
_TEXTS = {
    401: "Your session has ended: log in to Airflow again.",
    403: "You may not see this, or not do this: ask who administers Airflow for the right.",
    404: "There is no such page.",
}


async def _show_http_error(_: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    given = str(getattr(error, "detail", ""))
    text = _TEXTS.get(status, given) if given in ("", "Forbidden", "Not Found") else given
    return _error_page(status, _TEXTS[401] if status == 401 else text)


async def _show_error(_: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, AirflowRefusedError) else 409
    return _error_page(status, str(error), error)


async def _show_bug(_: Request, error: Exception) -> Response:
    answer = _error_page(500, f"{type(error).__name__}: the api-server's log has more.")
    # The middleware has no part in it.
    answer.headers.update(_HEADERS)
    return answer


def _error_page(status: int, text: str, error: Exception | None = None) -> Response:
    title = _TITLES.get(status, "It did not work")
    page = render("error.html", title=title, text=text, error=error)
    return HTMLResponse(page, status_code=status)
