from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from digits import DATA, have_digits, read_digits
from settings import Settings
from surelabel_studies.datasets.mnist import load_mnist
from surelabel_studies.mnist.split import draw_split

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
LEFT = ["164", "38", "7", "0"]
"""The paper's 17,828, 4,092, 762 and 0 of 54,500, in a pool of 500."""


def run_benchmark(name: str, *options: str) -> dict[str, Any]:
    """Its one line of standard output; skips where the benchmark says that it cannot run."""
    command = [sys.executable, str(BENCHMARKS / "run.py"), name, "--scale", "tiny", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    result: dict[str, Any] = json.loads(line)
    assert result["benchmark"] == name
    if "skipped" in result:
        pytest.skip(result["skipped"])
    return result


@pytest.mark.skipif(not have_digits(), reason=f"MNIST is not in {DATA}")
def test_digits_are_split_as_in_the_study() -> None:
    here = read_digits(Settings(seed=7, labels=10))
    study = draw_split(load_mnist(DATA), 7, labels_per_class=10)
    table = here.label_table()
    for column in ("label", "split"):
        assert table[column].tolist() == study.labels[column].tolist()
    given = study.labels["index"].astype(int)
    assert np.array_equal(here.images[table["index"].astype(int)], study.images[given])
    pool = np.delete(study.images, given, axis=0)
    assert np.array_equal(here.images[np.sort(here.pool)], pool)


def test_label_errors_are_found_by_both_rules() -> None:
    (rules,) = run_benchmark("label_errors")["sets"].values()
    assert {"surelabel", "cleanlab, prune_by_noise_rate"} <= rules.keys()
    assert rules["surelabel"]["recall"] > 0.5


def test_the_rows_of_the_readme_are_measured() -> None:
    (row,) = run_benchmark("readme_results")["collections"].values()
    assert row["labeled"] + row["left"] == row["pool"]
    assert row["wrong"] <= row["labeled"]


def test_an_exported_model_agrees_and_is_timed() -> None:
    (model,) = run_benchmark("exported_model")["models"].values()
    assert model["largest_difference"] < 1e-4
    assert model["ratio"] > 0


def test_the_estimator_is_compared_on_the_same_labels() -> None:
    (table,) = run_benchmark("estimator")["tables"].values()
    assert len(table) == 2
    assert all(0 <= row["error"] < 0.5 for row in table.values())


@pytest.mark.parametrize(
    "name",
    [
        "mc_sampling",
        "help_time",
        "pixel_store",
        "use_by_dates",
        "review_page",
        "feature_extraction",
        "cached_round",
        "detail",
        "photograph_cost",
    ],
)
def test_benchmarks_of_speed_give_a_ratio(name: str) -> None:
    assert run_benchmark(name)["ratio"] > 0


def test_the_choice_of_auto_is_compared_with_the_other_way() -> None:
    (rows,) = run_benchmark("net_choice", "--steps", "3")["collections"].values()
    for row in rows:
        assert set(row["error"]) == {"pooled", "detail"}
        lost = row["error"][row["chosen"]] - min(row["error"].values())
        assert row["points_lost"] == pytest.approx(lost, abs=0.02)


def test_the_memory_of_cached_features_is_measured() -> None:
    assert 0 < run_benchmark("feature_memory")["anonymous_gb_scored"] < 2


def test_adaptation_of_latents_finds_the_moved_classes() -> None:
    result = run_benchmark("adapt_latents")
    assert result["ratio"] > 0
    assert 0 < result["peak_memory_gb"] < 3
    assert len(result["right_by_way"]) == 8
    assert result["right"] > 0.8
    for size in result["by_size"]:
        assert 0.9 < size["distances_ratio"] < 1.2


def test_simulated_certifications_are_counted() -> None:
    assert run_benchmark("certification_simulation")["draws"] > 0


def test_certifications_on_digits_are_counted() -> None:
    result = run_benchmark("certification_mnist")
    assert result["tested"] == 9
    assert 0 <= result["violated"] <= result["certified"] <= 9


def test_outliers_among_digits_are_counted() -> None:
    result = run_benchmark("outliers")
    assert result["outliers"] > 0
    assert 0 <= result["auroc_of_distance"] <= 1


def test_baal_computes_what_we_compute() -> None:
    result = run_benchmark("against_baal")
    assert result["ratio"] > 0
    assert result["difference_without_dropout"] < 1e-5
    assert result["largest_difference"] < 0.1
    assert result["difference_samples"] > result["mc_samples"]


def test_both_places_of_dropout_are_in_the_same_net() -> None:
    result = run_benchmark("aurc_tail_dropout")
    assert result["difference_without_dropout"] < 1e-4
    assert [len(p) for p in result["dropout_p_last_seed"].values()] == [2, 6]
    for name in ("tail", "throughout"):
        assert len(result[f"aurc_{name}"]["each"]) == 2
        assert 0 < result[f"augrc_{name}"]["mean"] < result[f"error_{name}"]["mean"]
        assert result[f"cost_ratio_{name}"] > 0


def test_others_are_judged_on_the_same_pool() -> None:
    result = run_benchmark("others", "--labels", "20", "--images", "500")
    assert (result["pool"], result["labels_per_class"]) == (500, 20)
    few, more = result["methods"], result["from_held_out_labels_too"]
    assert len(few) == len(more) == 3
    for method in (*few.values(), *more.values(), result["surelabel"]):
        assert list(method["curve"]) == LEFT
        assert method["seconds"] > 0
    for method in (*few.values(), *more.values()):  # surelabel has only a few steps here
        assert method["aurc"] < method["error"] < 0.5


def test_recipes_are_compared_with_the_defaults(tmp_path: Path) -> None:
    result = run_benchmark("recipes", "--out", str(tmp_path))
    (recipes,) = result["datasets"].values()
    assert len(recipes) > 1
    defaults = recipes["the defaults"]
    assert (defaults["aurc_ratio"], defaults["cost_ratio"]) == (1, 1)
    for recipe in recipes.values():
        assert len(recipe["errors"]) == 5
        assert recipe["aurc_ratio"] > 0
    lines = (tmp_path / "results.jsonl").read_text()
    assert run_benchmark("recipes", "--out", str(tmp_path)) == result
    assert (tmp_path / "results.jsonl").read_text() == lines, "a finished run is not done again"


def test_a_run_is_counted_in_reference_epochs_and_can_be_read_again(tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    result = run_benchmark("mnist", "--out", out)
    assert result["pool"] == 500
    assert list(result["curves"]["1"]) == LEFT
    assert result["reference_epochs"] > 0
    assert len(result["reference_epoch_seconds"]) >= 2  # before and after; meanwhile if it is slow

    again = run_benchmark("selective_measures", "--run", out)
    assert again["pool"] == 500
    chosen = again["measures"][again["score"]]
    assert (chosen["aurc"], chosen["curve"]) == (result["aurc"], result["curves"]["1"])
    areas = [row["aurc"] for row in again["measures"].values()]
    assert len(areas) == 9
    assert areas == sorted(areas)

    for other in (["--images", "600"], ["--seed", "3"]):
        read = ["selective_measures", "--scale", "tiny", "--run", out, *other]
        command = [sys.executable, str(BENCHMARKS / "run.py"), *read]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "was not made from these images and labels" in done.stderr


def test_an_unknown_benchmark_is_named() -> None:
    command = [sys.executable, str(BENCHMARKS / "run.py"), "mc_samplign"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no benchmark 'mc_samplign'" in done.stderr


def test_simulated_promises_are_tallied() -> None:
    result = run_benchmark("promise_simulation")
    assert {row["scores"] for row in result["looks"]} >= {"groups", "worthless scores"}
    assert all(row["asked"] <= row["sampled"] for row in result["looks"])
    assert all(row["asked"] <= row["sample"] for row in result["surest_first"])


def test_labels_saved_are_compared_with_pac_labeling() -> None:
    result = run_benchmark("pac_labels")
    if "skipped" in result:
        pytest.skip(result["skipped"])
    for name in ("imagenetv2", "stance"):
        rows = result[name]
        assert rows["exact"]["saved"] == rows["exact, surest first"]["saved"] > 0
        asked = [rows[way]["expert_labels_to_certify"] for way in ("exact, surest first", "exact")]
        assert asked[0] < asked[1]
        assert rows["PAC, betting"]["saved"] <= rows["PAC, normal"]["saved"] + 0.01
