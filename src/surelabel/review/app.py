"""What each address of the review page answers, and what pages may send. No decisions here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from fastapi.templating import Jinja2Templates
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import ASGIApp

from surelabel.errors import SurelabelError
from surelabel.review.answers import Given, check_purpose, take, take_back
from surelabel.review.images import Size
from surelabel.review.queue import Order
from surelabel.review.security import LOOPBACK_NAMES, Gate, Keys
from surelabel.review.session import ReviewSession
from surelabel.runs.answers import AnswerKind, Purpose

ItemId = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
Client = Annotated[str, Field(pattern="^[0-9a-z]{1,32}$")]
Reviewer = Annotated[str, Field(max_length=60)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class AnswerBody(_Strict):
    """One answer."""

    id: ItemId
    kind: AnswerKind
    label: str | None = None
    expected_seq: Annotated[int, Field(ge=0)]
    new_class: bool = False

    def given(self) -> Given:
        """The same for ``answering``."""
        return Given(self.id, self.kind, self.label, self.expected_seq, self.new_class)


class AnswersBody(_Strict):
    """Answers of one reviewer, several at once from a grid."""

    reviewer: Reviewer
    client: Client
    purpose: Purpose | None = None
    """What the page was asked for when the person answered."""
    answers: Annotated[list[AnswerBody], Field(min_length=1, max_length=200)]


class SeenBody(_Strict):
    """An answer that a page has seen."""

    id: ItemId
    seq: Annotated[int, Field(ge=1)]


class UndoBody(_Strict):
    """Answers to take back; without any, the reviewer's newest."""

    reviewer: Reviewer
    client: Client
    purpose: Purpose | None = None
    answers: Annotated[list[SeenBody], Field(max_length=200)] = []


class LookingBody(_Strict):
    """Which image a page shows now, so that others are given other ones."""

    client: Client
    id: ItemId | None = None


HERE = Path(__file__).parent
_TEMPLATES = Jinja2Templates(HERE / "templates")


def build_app(
    session: ReviewSession,
    keys: Keys,
    *,
    cookie: str = "surelabel",
    hosts: frozenset[str] = LOOPBACK_NAMES,
    any_address: bool = False,
) -> ASGIApp:
    """The page for ``session``, behind its gate."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        session.close()

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(_pages(session, keys, cookie))
    app.include_router(_reading(session), prefix="/api")
    app.include_router(_changes(session), prefix="/api")
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")

    @app.exception_handler(SurelabelError)
    def sentence(_: Request, error: SurelabelError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 422)

    return Gate(app, keys, cookie, hosts, any_address=any_address)


def _pages(session: ReviewSession, keys: Keys, cookie: str) -> APIRouter:
    router = APIRouter()

    @router.get("/")
    def page(request: Request, token: str | None = None) -> Response:
        if token is None:
            name = session.queue.folder.path.resolve().name
            return _TEMPLATES.TemplateResponse(request, "page.html", {"run": name})
        admitted = keys.exchange(token)
        known = keys.admits(request.cookies.get(cookie, ""))
        if admitted is None and not known:
            return Response(
                "This link was used already or is mistyped: take the newest one that the "
                "terminal shows.\n",
                403,
                media_type="text/plain",
            )
        answer = RedirectResponse("/", 303)
        if admitted is not None:
            answer.set_cookie(cookie, admitted, httponly=True, samesite="strict", path="/")
        return answer

    @router.get("/image/{item_id}")
    def image(request: Request, item_id: ItemId, side: Size = Size.LARGE) -> Response:
        pictures = session.queue.pictures
        # Another run on this port may have another image of that name: the browser has to ask.
        keep = {"Cache-Control": "private, no-cache", "ETag": pictures.tag(item_id, side)}
        if request.headers.get("if-none-match") == keep["ETag"]:
            return Response(status_code=304, headers=keep)
        found = pictures.get(item_id, side)
        if found is None:
            return Response("There is no such image.\n", 404, media_type="text/plain")
        content, media_type = found
        return Response(content, media_type=media_type, headers=keep)

    return router


def _reading(session: ReviewSession) -> APIRouter:
    router = APIRouter()

    @router.get("/state")
    def state() -> dict[str, Any]:
        return session.state()

    @router.get("/counts")
    def counts() -> dict[str, Any]:
        return session.counts()

    @router.get("/queue")
    def queue(order: Order = Order.USEFUL) -> dict[str, Any]:
        queue = session.queue
        answered = list(queue.answered())
        return {"ids": queue.ordered(order), "answered": answered, "looking": session.looking()}

    @router.get("/items")
    def items(ids: Annotated[str, Query(max_length=6000)]) -> list[dict[str, Any]]:
        return session.queue.describe(ids.split(","))

    @router.get("/alike")
    def alike(id: ItemId, n: Annotated[int, Query(ge=1, le=100)] = 24) -> list[str]:
        return session.queue.similar(id, n)

    @router.get("/search")
    def search(q: Annotated[str, Query(max_length=300)]) -> list[dict[str, Any]]:
        return list(session.queue.search(q))

    @router.get("/events")
    async def events() -> StreamingResponse:
        return StreamingResponse(session.hub.stream(), media_type="text/event-stream")

    return router


def _changes(session: ReviewSession) -> APIRouter:
    router = APIRouter()

    @router.post("/answers")
    def answers(body: AnswersBody) -> dict[str, Any]:
        check_purpose(session.queue, body.purpose)
        results = take(session.queue, body.reviewer, [each.given() for each in body.answers])
        return _told(results, body.client)

    @router.post("/undo")
    def undo(body: UndoBody) -> dict[str, Any]:
        check_purpose(session.queue, body.purpose)
        seen = [(each.id, each.seq) for each in body.answers]
        return _told(take_back(session.queue, body.reviewer, seen), body.client)

    def _told(results: list[dict[str, Any]], client: str) -> dict[str, Any]:
        stored = [each for each in results if "answer" in each]
        if stored:
            session.hub.publish("answers", client=client, answers=stored)
        return {"results": results}

    @router.post("/looking")
    def looking(body: LookingBody) -> dict[str, Any]:
        session.look(body.client, body.id)
        return {}

    @router.post("/train")
    def train() -> dict[str, Any]:
        return session.start_training()

    @router.post("/train/stop")
    def stop() -> dict[str, Any]:
        session.trainer.stop()
        return session.trainer.status.to_json()

    return router
