"""The report: complete, true to the run's own figures, and harmless whatever names say."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pandas as pd
import pytest
from certify_data import N, finish_round, label_rows, make_run
from certify_data import truth as truth_of

from report.report_data import FORMULA, SCRIPT, TAG, read_page, train
from surelabel.api import Run
from surelabel.cli.main import run as command
from surelabel.config.settings import options
from surelabel.errors import OptionError, RunError
from surelabel.messages.guarantees import audit_sentence, certification_sentences
from surelabel.messages.run import held_out_text
from surelabel.report.page import report_at_end, write_report
from surelabel.runs.folder import RunFolder, refuse_run_file
from surelabel.workflows.audit import checks_table, take_answers
from surelabel.workflows.certify import certify_run
from surelabel.workflows.problem import problem_of

ALWAYS = {"left", "accuracy", "uncertainty", "coverage", "reliability", "confusion", "classes"}


def page_of(run: Run) -> Path:
    return run.path / "report.html"


def test_the_page_holds_everything_and_runs_nothing(hostile: Run) -> None:
    page = read_page(page_of(hostile))
    assert page_of(hostile).stat().st_size < 5_000_000
    assert not {"script", "iframe", "object", "embed", "form", "link", "base"} & set(page.tags)
    for tag, name, value in page.attributes:
        assert not name.startswith("on"), (tag, name)
        assert name != "style"
        if name in {"src", "srcset", "poster", "action"}:
            assert value.startswith("data:image/")
        if name == "href":
            assert value.startswith("#")


def test_the_policy_allows_the_style_of_the_page_and_data_images_only(hostile: Run) -> None:
    text = page_of(hostile).read_text(encoding="utf-8")
    style = re.search(r"<style>(.*)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    (policy,) = [v for _, n, v in read_page(page_of(hostile)).attributes if n == "content"][:1]
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert allowed["default-src"] == "'none'"
    assert allowed["img-src"] == "data:"
    assert allowed["style-src"] == f"'sha256-{digest}'"
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_hostile_names_are_text(hostile: Run) -> None:
    page = read_page(page_of(hostile))
    for name in (SCRIPT, TAG, FORMULA, "<b onclick=alert(1)>&amp;.png"):
        assert name in page.text
    assert "b" not in page.tags


def test_every_figure_is_a_sound_image_with_its_caption(hostile: Run) -> None:
    figures = read_page(page_of(hostile)).figures
    assert set(figures) >= {*ALWAYS, "dropout"}
    for name, shown in figures.items():
        assert shown.caption.endswith("."), name
        assert re.search(r"\d|None|not", shown.caption), f"{name} has no number in its caption"
        assert shown.caption in shown.alt
        stem = hostile.path / "report" / name
        assert stem.with_suffix(".txt").read_text(encoding="utf-8") == f"{shown.caption}\n"
        content = stem.with_suffix(".svg").read_bytes()
        assert ElementTree.fromstring(content).tag.endswith("svg")
        assert base64.b64decode(shown.src.partition(",")[2]) == content


def test_captions_have_the_runs_own_figures(split: Run) -> None:
    figures = read_page(page_of(split)).figures
    last = split.rounds[-1]
    assert f"Round 1 left {last.n_left:,} of {last.n_pool:,} images" in figures["left"].caption
    accepted = held_out_text(last.held_out_accepted_errors, last.n_held_out_accepted)
    assert accepted in figures["accuracy"].caption
    assert accepted in figures["coverage"].caption
    right = last.n_held_out - last.held_out_errors
    assert last.n_held_out == 12
    assert f"{right} of 12 held-out labels" in figures["confusion"].caption


def test_the_page_names_every_option(split: Run) -> None:
    text = read_page(page_of(split)).text
    for option in options():
        assert option.name in text
        assert option.metadata["help"] in text
    assert all(sentence in text for sentence in certification_sentences(split.summary))
    assert "too few for a forecast" in text


def test_the_page_of_a_cross_fit_run_mentions_it(hostile: Run) -> None:
    assert hostile.summary.cross_fit
    assert "labels that it had not seen" in read_page(page_of(hostile)).text


def test_the_promise_is_on_the_page(tmp_path: Path) -> None:
    labels = label_rows(range(9, N, 3))
    folder = make_run(tmp_path, labels, max_error="0.05", stop_below=N)
    finish_round(folder, wrong=tuple(range(330, N)), threshold=0.2, held=150)
    certify_run(folder, problem_of(folder).pool_ids)
    page = read_page(write_report(folder))
    promised = certification_sentences(Run(folder.path).summary)
    assert "at most 5.0 % of all 400 labels" in promised[0]
    assert all(sentence in page.text for sentence in promised)
    best = Run(folder.path).effort().plans[0]
    assert best.name in page.text
    assert f"{best.n_answers:,}" in page.text
    assert "the certified threshold" in page.figures["coverage"].caption
    assert "200 certify labels" in page.figures["forecast"].caption


def test_an_audit_is_on_the_page_until_it_is_void(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(range(0)))
    finish_round(folder)
    checks = checks_table(folder, 80)
    checks["answer"] = [truth_of(int(path.split(":")[1])) for path in checks["path"]]
    checks.to_csv(tmp_path / "a.csv", index=False)
    sentence = audit_sentence(take_answers(folder, tmp_path / "a.csv"))
    assert sentence in read_page(write_report(folder)).text
    finish_round(folder, number=2, threshold=0.3)
    assert "Checked by people" not in read_page(write_report(folder)).text


def test_without_held_out_labels_nothing_is_known_about_errors(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(range(0)))
    finish_round(folder)
    page = read_page(write_report(folder))
    assert set(page.figures) == {"left", "classes"}
    assert "No label was held out" in page.text


def test_figures_of_an_earlier_report_do_not_stay(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(range(0)))
    finish_round(folder, held=150)
    write_report(folder)
    assert (folder.path / "report" / "coverage.svg").exists()
    finish_round(folder, number=2)
    write_report(folder)
    assert {p.stem for p in (folder.path / "report").iterdir()} == {"left", "classes"}


def test_images_that_left_the_cache_are_still_named(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(range(0)))
    finish_round(folder)
    assert "no longer in the cache" not in read_page(write_report(folder)).text
    shutil.rmtree(tmp_path / "cache")
    text = read_page(write_report(folder)).text
    assert "no longer in the cache" in text
    assert "array:" in text


def test_many_classes_make_a_page_of_bounded_size(tmp_path: Path) -> None:
    folder = make_run(tmp_path, _many_labels())
    finish_round(folder, held=150)
    page = write_report(folder)
    assert page.stat().st_size < 5_000_000
    assert "largest of 60 are drawn" in read_page(page).figures["classes"].caption


def _many_labels() -> pd.DataFrame:
    rows = [(i, f"class {i // 2} {'x' * 60}", "train") for i in range(120)]
    return pd.DataFrame(rows, columns=["index", "label", "split"])


def test_a_run_without_a_round_gets_a_sentence(tmp_path: Path) -> None:
    folder = make_run(tmp_path, label_rows(range(0)))
    with pytest.raises(RunError, match="no finished round yet"):
        write_report(folder)


def test_the_command_prints_where_the_page_is(
    split: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(split.path, copy)
    (copy / "report.html").unlink()
    assert command(["report", str(copy)]) == 0
    assert f"Wrote {copy}/report.html." in capsys.readouterr().err.replace("\n", "")
    assert (copy / "report.html").exists()
    with pytest.raises(OptionError):
        refuse_run_file(copy / "report.html")


def test_a_report_that_fails_does_not_fail_the_run(
    split: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(split.path, copy)
    shutil.rmtree(copy / "report")
    (copy / "report").write_text("in the way")
    assert command(["resume", str(copy)]) == 0
    assert "The report could not be written" in capsys.readouterr().err
    assert command(["resume", str(copy), "--no-report"]) == 0
    assert "could not be written" not in capsys.readouterr().err


def test_a_run_that_is_gone_is_not_called_unaffected(split: Run, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(split.path, copy)
    folder = RunFolder.open(copy)
    shutil.rmtree(copy)
    with pytest.raises(RunError, match="was deleted or moved"):
        report_at_end(folder)
    assert not copy.exists()


def test_without_the_packages_a_run_ends_with_one_line(split: Run, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(split.path, copy)
    (copy / "report.html").unlink()
    program = (
        "import sys; sys.modules['jinja2'] = None; sys.modules['matplotlib'] = None\n"
        "from surelabel.cli.main import run\n"
        f"codes = run(['resume', {str(copy)!r}]), run(['report', {str(copy)!r}])\n"
        "print(codes)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "(0, 2)", done.stderr
    assert done.stderr.count("pip install 'surelabel[report]'") == 2
    assert not (copy / "report.html").exists()


def test_a_finished_run_has_its_report_among_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = train(tmp_path, {"across": "a", "down": "d"}, max_rounds=1)
    assert not page_of(run).exists()
    assert command(["resume", str(run.path)]) == 0
    assert page_of(run).exists()
    assert "report.html" in capsys.readouterr().err
