"""The review page's routes: what each returns and what pages may send. Nothing is decided here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from fastapi.templating import Jinja2Templates
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.types import ASGIApp

from surelabel.errors import SurelabelError
from surelabel.export.writers import ExportFormat
from surelabel.review.answers import (
    Stored,
    SubmittedAnswer,
    check_purpose,
    check_reviewer,
    store_answers,
    undo_answers,
)
from surelabel.review.browsing import Browsing, parse_corners
from surelabel.review.gallery import MAX_PAGE, Filter, Sorting
from surelabel.review.guide import Asked, Guide
from surelabel.review.images import Size
from surelabel.review.queue import Order
from surelabel.review.security import LOOPBACK_NAMES, AccessControl, AccessTokens
from surelabel.review.session import ReviewSession
from surelabel.runs.answers import AnswerKind, Purpose
from surelabel.types import LabelSource

HERE = Path(__file__).parent
_TEMPLATES = Jinja2Templates(HERE / "templates")

ItemId = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
Client = Annotated[str, Field(pattern="^[0-9a-z]{1,32}$")]
MAX_REVIEWER = 60
"""Characters in the name of a reviewer."""
Reviewer = Annotated[str, Field(max_length=MAX_REVIEWER), AfterValidator(check_reviewer)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class AnswerBody(_Strict):
    """One answer."""

    id: ItemId
    kind: AnswerKind
    label: str | None = None
    expected_seq: Annotated[int, Field(ge=0)]
    new_class: bool = False

    def submitted(self) -> SubmittedAnswer:
        """The same as a plain value."""
        return SubmittedAnswer(self.id, self.kind, self.label, self.expected_seq, self.new_class)


class AnswersBody(_Strict):
    """Answers of one reviewer, several at once from a grid."""

    reviewer: Reviewer
    client: Client
    purpose: Purpose | None = None
    """What the page was for when the reviewer answered."""
    answers: Annotated[list[AnswerBody], Field(min_length=1, max_length=200)]


class SeenBody(_Strict):
    """An answer that a page has seen."""

    id: ItemId
    seq: Annotated[int, Field(ge=1)]


class UndoBody(_Strict):
    """Answers to undo; if empty, the reviewer's newest."""

    reviewer: Reviewer
    client: Client
    purpose: Purpose | None = None
    answers: Annotated[list[SeenBody], Field(max_length=200)] = []


class ClassesBody(_Strict):
    """The names of the classes."""

    names: Annotated[list[Annotated[str, Field(max_length=1000)]], Field(max_length=5000)]


class FoldersBody(_Strict):
    """Whether sub-folders are classes."""

    are_classes: bool


class ByHandBody(_Strict):
    """Whether people label everything themselves."""

    by_hand: bool


class WishBody(_Strict):
    """The share of wrong labels that people can live with, and how many images they check."""

    max_error: float | None
    n: Annotated[int, Field(ge=1)] | None = None


class AskBody(_Strict):
    """What to ask people about."""

    what: Asked


class ExportBody(_Strict):
    """The format of an export."""

    to: ExportFormat


class ViewingBody(_Strict):
    """Which image a page shows now, so that other reviewers get other ones."""

    client: Client
    id: ItemId | None = None


def build_app(
    session: ReviewSession,
    tokens: AccessTokens,
    *,
    cookie: str = "surelabel",
    hosts: frozenset[str] = LOOPBACK_NAMES,
    any_address: bool = False,
) -> ASGIApp:
    """The page for ``session``, behind access control."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        session.close()

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(_page_routes(session, tokens, cookie))
    app.include_router(_read_routes(session), prefix="/api")
    app.include_router(_change_routes(session), prefix="/api")
    app.include_router(_browse_routes(session.browsing), prefix="/api")
    if session.guide is not None:
        app.include_router(_guide_routes(session.guide))
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")

    @app.exception_handler(SurelabelError)
    def refuse(_: Request, error: SurelabelError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 422)

    @app.exception_handler(RequestValidationError)
    def refuse_body(_: Request, error: RequestValidationError) -> JSONResponse:
        # Without what was sent: NaN and half characters have no place in a response.
        faults = [{"type": fault["type"], "msg": ascii(fault["msg"])} for fault in error.errors()]
        return JSONResponse({"detail": faults}, 422)

    return AccessControl(app, tokens, cookie, hosts, any_address=any_address)


def _page_routes(session: ReviewSession, tokens: AccessTokens, cookie: str) -> APIRouter:
    router = APIRouter()

    @router.get("/")
    def page(request: Request, token: str | None = None) -> Response:
        if token is None:
            name = session.queue.folder.path.resolve().name
            return _TEMPLATES.TemplateResponse(request, "page.html", {"run": name})
        admitted = tokens.exchange(token)
        known = tokens.admits(request.cookies.get(cookie, ""))
        if admitted is None and not known:
            return Response(
                "This link has been used or is mistyped: open the newest one that the terminal "
                "shows.\n",
                403,
                media_type="text/plain",
            )
        response = RedirectResponse("/", 303)
        if admitted is not None:
            response.set_cookie(cookie, admitted, httponly=True, samesite="strict", path="/")
        return response

    @router.get("/image/{item_id}")
    def image(request: Request, item_id: ItemId, side: Size = Size.LARGE) -> Response:
        pictures = session.queue.pictures
        # Another run on this port may have another image with this id: the browser has to ask.
        headers = {"Cache-Control": "private, no-cache", "ETag": pictures.tag(item_id, side)}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        encoded = pictures.get(item_id, side)
        if encoded is None:
            return Response("There is no such image.\n", 404, media_type="text/plain")
        content, media_type = encoded
        return Response(content, media_type=media_type, headers=headers)

    @router.get("/attention/{item_id}")
    def attention(item_id: ItemId) -> Response:
        shade = None if session.task.blind else session.queue.shades.get(item_id)
        if shade is None:
            return Response("There is no such image.\n", 404, media_type="text/plain")
        # The next round looks elsewhere.
        return Response(shade, media_type="image/png", headers={"Cache-Control": "no-store"})

    return router


def _read_routes(session: ReviewSession) -> APIRouter:
    router = APIRouter()

    @router.get("/state")
    def state() -> dict[str, object]:
        return session.state()

    @router.get("/counts")
    def counts() -> dict[str, object]:
        return {"classes": session.class_counts(), "certify": session.certify_status()}

    @router.get("/queue")
    def queue(order: Order = Order.USEFUL) -> dict[str, object]:
        queue = session.queue
        answered = list(queue.answered())
        return {"ids": queue.ordered(order), "answered": answered, "viewing": session.viewing()}

    @router.get("/items")
    def items(ids: Annotated[str, Query(max_length=6000)]) -> Sequence[object]:
        return session.queue.describe(ids.split(","))

    @router.get("/similar")
    def similar(id: ItemId, n: Annotated[int, Query(ge=1, le=100)] = 24) -> list[str]:
        return session.queue.similar(id, n)

    @router.get("/search")
    def search(q: Annotated[str, Query(max_length=300)]) -> Sequence[object]:
        return session.queue.search(q)

    @router.get("/events")
    async def events() -> StreamingResponse:
        return StreamingResponse(session.events.stream(), media_type="text/event-stream")

    return router


def _change_routes(session: ReviewSession) -> APIRouter:
    router = APIRouter()

    @router.post("/answers")
    def answers(body: AnswersBody) -> dict[str, object]:
        check_purpose(session.queue, body.purpose)
        submitted = [each.submitted() for each in body.answers]
        return publish(
            store_answers(session.queue, body.reviewer, submitted, body.purpose), body.client
        )

    @router.post("/undo")
    def undo(body: UndoBody) -> dict[str, object]:
        check_purpose(session.queue, body.purpose)
        seen = [(each.id, each.seq) for each in body.answers]
        return publish(undo_answers(session.queue, body.reviewer, seen), body.client)

    def publish(results: list[Stored], client: str) -> dict[str, object]:
        stored = [each for each in results if "answer" in each]
        if stored:
            session.events.publish("answers", client=client, answers=stored)
        return {"results": results}

    @router.post("/viewing")
    def viewing(body: ViewingBody) -> dict[str, object]:
        session.set_viewing(body.client, body.id)
        return {}

    @router.post("/result")
    def result() -> dict[str, object]:
        return session.result().to_json()

    @router.post("/train")
    def train() -> dict[str, object]:
        return session.start_training().to_json()

    @router.post("/train/stop")
    def stop() -> dict[str, object]:
        session.trainer.stop()
        return session.trainer.status.to_json()

    return router


class GalleryQuery(_Strict):
    """Which images of the gallery, and which of their pages."""

    label: Annotated[str, Field(max_length=1000)] | None = None
    source: LabelSource | None = None
    reason: Annotated[str, Field(max_length=30)] = ""
    round: Annotated[int, Field(ge=1)] | None = None
    least: Annotated[float, Field(ge=0, le=1)] = 0.0
    most: Annotated[float, Field(ge=0, le=1)] = 1.0
    text: Annotated[str, Field(max_length=300)] = ""
    within: Annotated[str, Field(max_length=6000)] = ""
    like: ItemId | None = None
    sorting: Sorting = Sorting.ERRORS
    offset: Annotated[int, Field(ge=0)] = 0
    n: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 60
    version: Annotated[int, Field(ge=0)] | None = None

    def filter(self) -> Filter:
        """The same as a plain value."""
        return Filter(
            label=self.label,
            source=None if self.source is None else str(self.source),
            reason=self.reason,
            round=self.round,
            least=self.least,
            most=self.most,
            text=self.text.strip(),
            within=parse_corners(self.within),
            like=self.like or "",
            sorting=self.sorting,
        )


def _browse_routes(browsing: Browsing) -> APIRouter:
    router = APIRouter()

    @router.get("/gallery")
    def gallery(query: Annotated[GalleryQuery, Query()]) -> dict[str, object]:
        return browsing.page(query.filter(), query.offset, query.n, query.version)

    @router.get("/gallery/counts")
    def counts() -> dict[str, object]:
        return browsing.counts()

    @router.get("/map")
    def status() -> dict[str, object]:
        return browsing.map_status()

    @router.post("/map")
    def draw() -> dict[str, object]:
        return browsing.start_map()

    @router.get("/map/points")
    def points() -> Response:
        return Response(browsing.points(), media_type="application/octet-stream")

    return router


def _guide_routes(guide: Guide) -> APIRouter:
    router = APIRouter()

    @router.get("/api/journey")
    def journey() -> dict[str, object]:
        return guide.state()

    @router.get("/api/wish")
    def describe(max_error: float) -> dict[str, object]:
        return guide.describe_wish(max_error)

    @router.get("/api/effort")
    def effort() -> dict[str, object]:
        return guide.effort()

    @router.post("/api/plan/classes")
    def classes(body: ClassesBody) -> dict[str, object]:
        guide.set_classes(body.names)
        return guide.state()

    @router.post("/api/plan/folders")
    def folders(body: FoldersBody) -> dict[str, object]:
        guide.set_folders(body.are_classes)
        return guide.state()

    @router.post("/api/plan/by-hand")
    def by_hand(body: ByHandBody) -> dict[str, object]:
        guide.set_by_hand(body.by_hand)
        return guide.state()

    @router.post("/api/plan/wish")
    def wish(body: WishBody) -> dict[str, object]:
        guide.set_wish(body.max_error, body.n)
        return guide.state()

    @router.post("/api/ask")
    def ask(body: AskBody) -> dict[str, object]:
        guide.ask(body.what)
        return {}

    @router.post("/api/export")
    def export(body: ExportBody) -> dict[str, object]:
        return guide.export(body.to)

    @router.get("/download/{to}")
    def download(to: ExportFormat) -> Response:
        name, content = guide.download(to)
        return _attachment(content, name, "application/octet-stream")

    @router.get("/report")
    def report() -> Response:
        content = guide.report()
        if content is None:
            return Response("There is no report yet.\n", 404, media_type="text/plain")
        return _attachment(content, "report.html", "text/html")

    return router


def _attachment(content: bytes, name: str, media_type: str) -> Response:
    plain = name.encode("ascii", "replace").decode().replace('"', "_")
    headers = {"Content-Disposition": f'attachment; filename="{plain}"'}
    return Response(content, media_type=media_type, headers=headers)
