from __future__ import annotations

import pytest

from surelabel.config.choices import Dropout, Measure, Mode, Net, Schedule, Weighting
from surelabel.config.settings import Config, options
from surelabel.errors import OptionError
from surelabel.models.growing_densenet import growth_rate
from surelabel_studies.mnist.rows import DEFAULT, NAMES, config_of, models_named, row_named
from surelabel_studies.mnist.study import StudySettings

OFF: dict[str, object] = {
    "augment": False,
    "balance_rounds": 0,
    "consistency": 0,
    "matrix_scaling": False,
    "early_stop": 0,
    "roll_back": False,
    "teacher_correction": False,
    "flips": False,
    "growth_warm": False,
    "human_share": 0,
    "left_share": 0,
    "neighbor_vote": False,
    "pseudo_label_evidence": 1,
    "max_error": "",
    "mode": Mode.KEEP,
    "out_of_distribution": False,
    "warm_start": False,
    "weight_average": 0,
    "weight_cap": 0,
}
"""What the paper did not have, as it is without it."""
THE_PAPERS = (
    *("accept", "batch_size", "concrete_temperature", "dropout", "dropout_p", "entropy_penalty"),
    *("epochs", "growth_max", "growth_nu", "growth_start", "learning_rate", "max_rounds"),
    *("mc_samples", "members", "net", "noise_samples", "optimizer", "phi_bias", "phi_gamma"),
    *("prior_length_scale", "schedule", "score", "seed", "steps", "stop_below", "weight_decay"),
    *("weight_measure", "weights", "class_weights"),
)
NO_PART = (
    # Of splits and promises that the study does not ask for, of photographs, of the machine; and
    # what others switch off: a confidence of consistency, effort with steps and members given.
    *("tune_share", "labels_are_random", "certify_share", "alpha_share", "confidence"),
    *("image_size", "keep_aspect", "net_weights", "tail", "views", "width"),
    *("start_from", "feature_cache"),
    *("threads", "device", "cache", "consistency_threshold", "effort", "stop_after_empty"),
    *("engine", "ray_address", "ray_workers", "ray_dashboard"),
    "first_round_factor",
    "target_error",
    *("class_folders", "merge_spellings"),
)


@pytest.mark.parametrize("net", [Net.COMPACT, Net.DENSENET])
@pytest.mark.parametrize("name", NAMES)
def test_what_the_paper_did_not_have_is_off(name: str, net: Net) -> None:
    config = config_of(name, net, seed=3)
    assert {option: getattr(config, option) for option in OFF} == OFF
    assert (config.seed, config.net) == (3, net)
    assert config.stop_below == config.batch_size
    assert config.max_rounds > row_named(name).paper.rounds


def test_of_every_option_it_is_known_whether_the_paper_had_it() -> None:
    """A new option is in the paper's rows what it was before, or has a place in these lists."""
    every = [option.name for option in options()]
    assert sorted([*OFF, *THE_PAPERS, *NO_PART]) == sorted(every)
    plain = Config()
    for name in NAMES:
        config = config_of(name, Net.DENSENET, seed=0)
        assert all(getattr(config, option) == getattr(plain, option) for option in NO_PART)


def test_the_densenet_has_the_papers_schedule() -> None:
    for name in NAMES:
        config = config_of(name, Net.DENSENET, seed=0)
        assert (config.epochs, config.steps, config.batch_size) == (75, 0, 32)
        assert (config.learning_rate, config.optimizer) == (0.1, "sgd")
        assert config.schedule is Schedule.STEP
        assert (config.growth_start, config.growth_max, config.growth_warm) == (12, 24, False)
        assert [growth_rate(12, 24, config.growth_nu, r) for r in range(1, 5)] == [12, 13, 15, 18]


def test_the_six_models_differ_as_the_table_says() -> None:
    made = {name: config_of(name, Net.DENSENET, seed=0) for name in NAMES}
    assert [c.accept for c in made.values()] == ["confidence:.99", "q3", "q3", "q3", "q2", "q2"]
    weighted = [c.weights is Weighting.INVERSE_UNCERTAINTY for c in made.values()]
    assert weighted == [False, True, False, True, True, True]
    assert [row_named(name).is_weighted for name in NAMES] == weighted
    assert [c.entropy_penalty for c in made.values()] == [0, 0, 0, 0, 0, 1]
    assert [row_named(name).is_penalized for name in NAMES] == [False] * 5 + [True]
    assert [c.members for c in made.values()] == [1, 5, 1, 1, 1, 1]
    assert [c.mc_samples for c in made.values()] == [1, 1, 30, 30, 30, 30]
    assert {(c.dropout, c.dropout_p) for c in made.values()} == {(Dropout.CONCRETE, 0.2)}
    for name in NAMES[1:]:
        assert made[name].score is made[name].weight_measure is Measure.TOTAL_VARIANCE


def test_default_is_the_tools_own_settings_with_the_rule_of_the_published_figures() -> None:
    own = Config(net="compact", accept="tukey")
    assert config_of(DEFAULT, Net.COMPACT, seed=0) == own
    assert config_of(DEFAULT, Net.COMPACT, seed=0, epochs=2, rounds=1) == own.replace(
        epochs=2, max_rounds=1
    )


def test_a_run_can_be_scaled_down() -> None:
    compact = config_of("dst", Net.COMPACT, seed=0, epochs=2, rounds=3)
    assert (compact.epochs, compact.steps, compact.max_rounds) == (2, 0, 3)


def test_models_come_in_the_order_of_the_table() -> None:
    assert models_named(["all"]) == NAMES
    assert models_named(["dbst-2,dst"]) == ("dst", "dbst-2")
    assert models_named(["default", "DBST-4"]) == ("dbst-4", "default")
    with pytest.raises(OptionError, match="'dbst-5'; it can be dst"):
        models_named(["dbst-5"])


def test_total_is_for_the_tools_own_settings() -> None:
    with pytest.raises(OptionError, match="--model default"):
        StudySettings(("dst",), total=100)
    with pytest.raises(OptionError, match="not both"):
        StudySettings((DEFAULT,), total=100, labels_per_class=10)
    assert StudySettings((DEFAULT,), total=100).folder(DEFAULT) == "default-total-100"
    assert StudySettings(("dst",), labels_per_class=10).folder("dst") == "dst-10"
    assert StudySettings(("dst",)).folder("dst") == "dst"
