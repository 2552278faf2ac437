"""``surelabel review``: parse the options, open or make the run, serve the page."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surelabel.cli.output import console, handle_errors
from surelabel.config.choices import Strategy
from surelabel.errors import InputError, OptionError
from surelabel.messages.run import run_name

if TYPE_CHECKING:
    from surelabel.review.queue import Task
    from surelabel.runs.folder import RunFolder

_PACKAGES = ("fastapi", "uvicorn", "jinja2")

NoBrowser = Annotated[
    bool, typer.Option("--no-browser", help="Do not open the page in the browser.")
]


def review(
    target: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="A run folder, or images without labels.", show_default=False
        ),
    ],
    audit: Annotated[
        int | None,
        typer.Option(min=1, help="Check this many random accepted labels, the run's label hidden."),
    ] = None,
    certify: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Certify with this many random images, or auto; run's label hidden."
        ),
    ] = None,
    blind: Annotated[
        Path | None,
        typer.Option(help="CSV of images (column file) to judge, the run's label hidden."),
    ] = None,
    disputed: Annotated[
        bool, typer.Option("--disputed", help="Settle the images that several people disagree on.")
    ] = False,
    suspicious: Annotated[
        bool,
        typer.Option("--suspicious", help="Check labels given by people that look wrong."),
    ] = False,
    answers: Annotated[
        Path | None,
        typer.Option(help="With --blind: CSV file to write the answers to."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="For images: the run folder; default runs/NAME.")
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="For images: how many to draw.")] = 300,
    strategy: Annotated[
        Strategy, typer.Option(help="For images: draw them at random, or by coverage.")
    ] = Strategy.RANDOM,
    config: Annotated[
        Path | None, typer.Option(help="For images: a TOML file of settings.")
    ] = None,
    reviewer: Annotated[
        str | None, typer.Option(help="Your name, stored with each answer; default your user name.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes one derived from the run's path.")] = 0,
    expose: Annotated[
        bool, typer.Option("--expose", help="Allow a --host that other machines can reach.")
    ] = False,
    name: Annotated[
        list[str] | None, typer.Option(help="Another host name to answer to; may be repeated.")
    ] = None,
    no_browser: NoBrowser = False,
) -> None:
    """Label what a run left unlabeled, in your browser; or give images their first labels."""
    with handle_errors():
        _require_packages()
        if answers is not None and blind is None:
            raise OptionError("--answers belongs to --blind: it names the file for those answers.")
        chosen = (audit, certify, blind, disputed or None, suspicious or None)
        if sum(option is not None for option in chosen) > 1:
            raise OptionError("Give one of --audit, --certify, --blind, --disputed, --suspicious.")
        from surelabel.review.blind_checks import check_target
        from surelabel.review.server import Address, serve

        if answers is not None:
            check_target(answers)
        address = Address(host, port, expose, tuple(name or ()))
        address.check()
        if strategy is Strategy.UNCERTAIN:
            raise OptionError(
                "The strategy uncertain is for runs: open the run, whose page begins with the most "
                "useful images, or draw a table with surelabel draw RUN --strategy uncertain."
            )
        folder = _open_run(target, out, config, n if strategy is Strategy.COVERAGE else 0)
        task = _task_of(folder, audit=audit, certify=certify, blind=blind, n_first=n)
        if disputed:
            task = _disputed_task(folder)
        if suspicious:
            task = replace(task, suspicious=True)
        who = _reviewer(reviewer)
        serve(folder, task, address, typer.echo, who, browser=not no_browser)
        _finish(folder, task, answers)


def start(
    target: Annotated[
        Path,
        typer.Argument(
            metavar="IMAGES",
            help="A folder of images, or a run that was started before.",
            show_default=False,
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="The run folder; default runs/NAME.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
    reviewer: Annotated[
        str | None, typer.Option(help="Your name, stored with each answer; default your user name.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port; 0 takes one derived from the run's path.")] = 0,
    no_browser: NoBrowser = False,
) -> None:
    """From a folder of images to a finished dataset, step by step, in your browser.

    surelabel IMAGES, without a command, does the same.
    """
    with handle_errors():
        _require_packages()
        from surelabel.review.queue import Task
        from surelabel.review.server import Address, serve

        folder = _open_run(target, out, config, 0)
        who = _reviewer(reviewer)
        task = Task(n_first=len(folder.catalog))
        address = Address(port=port)
        serve(folder, task, address, typer.echo, who, browser=not no_browser, guided=True)


def _reviewer(option: str | None) -> str:
    """The name that is stored with answers; the page refuses one with control characters."""
    from surelabel.dataset.items import name_problem
    from surelabel.review.app import MAX_REVIEWER
    from surelabel.review.server import default_reviewer

    name = default_reviewer() if option is None else option
    problem = name_problem(name)
    if len(name) > MAX_REVIEWER:
        problem = f"has {len(name):,} characters, and {MAX_REVIEWER} are allowed"
    if not problem:
        return name
    if option is None:
        return ""
    raise OptionError(f"--reviewer {name!r} {problem}: give another name.")


def _task_of(
    folder: RunFolder, *, audit: int | None, certify: str | None, blind: Path | None, n_first: int
) -> Task:
    """The task that the options ask for."""
    from surelabel.review.blind_checks import read_list
    from surelabel.review.queue import Task
    from surelabel.runs.answers import Purpose
    from surelabel.workflows.audit import ids_to_check
    from surelabel.workflows.certify_labels import ids_to_certify
    from surelabel.workflows.forecast import sample_size

    if audit is not None:
        return Task(Purpose.AUDIT, tuple(ids_to_check(folder, audit).tolist()))
    if certify is not None:
        n = sample_size(folder, certify)
        return Task(Purpose.CERTIFY, tuple(ids_to_certify(folder, n).tolist()))
    if blind is not None:
        return Task(Purpose.BLIND, tuple(read_list(blind, folder.catalog)))
    return Task(n_first=n_first)


def _disputed_task(folder: RunFolder) -> Task:
    """The images that people disagree on, each judged without seeing what others said."""
    from surelabel.review.queue import Task
    from surelabel.runs.answers import Purpose
    from surelabel.workflows.annotators import disputed_ids

    ids = tuple(disputed_ids(folder))
    if not ids:
        raise InputError(f"{folder.path}: people disagree on no image: there is nothing to settle.")
    return Task(Purpose.REVIEW, ids)


def _finish(folder: RunFolder, task: Task, answers: Path | None) -> None:
    """After the server has stopped: print what the answers show, or write them to a file."""
    from surelabel.cli.output import print_check_result
    from surelabel.report.page import report_at_end
    from surelabel.review.blind_checks import write_answers
    from surelabel.review.results import result_of_audit, result_of_certification
    from surelabel.runs.answers import Purpose

    if task.purpose is Purpose.AUDIT:
        result = result_of_audit(folder)
        print_check_result(console, result.sentences, result.rows)
    if task.purpose is Purpose.CERTIFY:
        result = result_of_certification(folder, task.ids or ())
        print_check_result(console, result.sentences, result.rows)
        if result.is_final:
            report_at_end(folder)
    if answers is not None:
        written = write_answers(folder, answers)
        typer.echo(f"Wrote {written:,} {'answer' if written == 1 else 'answers'} to {answers}.")


def _open_run(target: Path, out: Path | None, config: Path | None, n_by_coverage: int) -> RunFolder:
    """The run at ``target``, or a new one made from the images there."""
    from surelabel.cli.progress import reporting
    from surelabel.config.settings import Config
    from surelabel.runs.folder import RunFolder
    from surelabel.workflows.first_labels import begin_unlabeled

    if (target / "run.json").is_file():
        return RunFolder.open(target)
    settings = Config.from_toml(config) if config else Config()
    with reporting(console, quiet=False) as reporter:
        place = out or Path("runs") / run_name(target)
        return begin_unlabeled(
            target,
            place,
            settings,
            reporter.on_progress,
            reporter.on_event,
            n_by_coverage=n_by_coverage,
        )


def _require_packages() -> None:
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"The review page needs {', '.join(missing)}. Install with: pip install "
            "'surelabel[review]'"
        )
