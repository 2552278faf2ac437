from __future__ import annotations

import dataclasses
import os
import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel.config import settings as config_module
from surelabel.config.choices import Effort, Measure, Net, Weighting
from surelabel.config.fields import Group, read_toml
from surelabel.config.settings import Config, options
from surelabel.errors import OptionError

OPTIONS: dict[str, dataclasses.Field[Any]] = {option.name: option for option in options()}
DEFAULTS: dict[str, Any] = {name: option.default for name, option in OPTIONS.items()}
NUMBERS = [n for n, o in OPTIONS.items() if type(o.default) in (int, float)]
ENUMS = [n for n, o in OPTIONS.items() if isinstance(o.default, StrEnum)]


def values_of(option: dataclasses.Field[Any]) -> st.SearchStrategy[Any]:
    """Any allowed value of an option."""
    low, high = option.metadata["low"], option.metadata["high"]
    if isinstance(option.default, StrEnum):
        return st.sampled_from(list(type(option.default)))
    if isinstance(option.default, bool):
        return st.booleans()
    if isinstance(option.default, int):
        return st.integers(int(low), int(high))
    if isinstance(option.default, float):
        return st.floats(low, high)
    return st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


def agreeing(values: dict[str, Any]) -> dict[str, Any]:
    """The same without the contradictions that the config refuses."""
    values["growth_max"] = max(values["growth_max"], values["growth_start"])
    if values["steps"]:
        values["epochs"] = 0
    if values["noise_samples"] == 0:
        values["weights"] = Weighting.NONE
        values["score"] = Measure.LEAST_CONFIDENCE
    if 0 < values["image_size"] < 8:
        values["image_size"] = 0
    return values


configs = (
    st.fixed_dictionaries({name: values_of(option) for name, option in OPTIONS.items()})
    .map(agreeing)
    .map(lambda values: Config(**values))
)


def test_every_option_has_help_and_a_group() -> None:
    for name, option in OPTIONS.items():
        text = option.metadata["help"]
        assert text.endswith("."), name
        assert text[0].isupper() or text.startswith("auto"), name
        assert isinstance(option.metadata["group"], Group), name


def test_every_number_has_a_range_with_its_default_inside() -> None:
    for name in NUMBERS:
        option = OPTIONS[name]
        assert option.metadata["low"] <= option.default <= option.metadata["high"], name


def test_options_come_in_blocks_of_one_group() -> None:
    blocks: list[Group] = []
    for option in options():
        if not blocks or blocks[-1] is not option.metadata["group"]:
            blocks.append(option.metadata["group"])
    assert blocks == list(Group)


def test_every_choice_is_a_string_of_small_letters() -> None:
    choices = [
        kind
        for kind in vars(config_module).values()
        if isinstance(kind, type) and issubclass(kind, StrEnum) and kind not in (StrEnum, Group)
    ]
    assert len(choices) >= len({type(OPTIONS[name].default) for name in ENUMS})
    for kind in choices:
        assert kind.__doc__
        for choice in kind:
            assert choice == choice.lower() == choice.name.lower()


@settings(max_examples=60, deadline=None)
@given(configs)
def test_a_config_survives_being_written_as_toml(config: Config) -> None:
    again = Config.from_mapping(tomllib.loads(config.to_toml()))
    assert again == config


@pytest.mark.parametrize("folder", ["/data/日本", "/data/😀", 'C:\\a "b"', "tab\tdelete\x7f"])
def test_any_folder_name_survives_a_settings_file(tmp_path: Path, folder: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(Config(cache=folder).to_toml(), encoding="utf-8")
    assert Config.from_toml(path).cache == folder


def test_a_settings_file_may_leave_options_out_and_write_whole_numbers(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('net = "densenet"\nwidth = 2\nflips = true\n')
    config = Config.from_toml(path)
    assert config == Config(net=Net.DENSENET, width=2.0, flips=True)
    assert isinstance(config.width, float)


def test_enums_are_given_by_their_string() -> None:
    config = Config.from_mapping({"score": "mutual_information", "effort": "low"})
    assert config.score is Measure.MUTUAL_INFORMATION
    assert config.effort is Effort.LOW


def refusal_of(values: dict[str, Any], where: str = "options") -> str:
    with pytest.raises(OptionError) as refusal:
        Config.from_mapping(values, where=where)
    return str(refusal.value)


def test_an_unknown_choice_is_refused_with_the_known_ones() -> None:
    for name in ENUMS:
        message = refusal_of({name: "surprise"}, where="settings.toml")
        for part in ("settings.toml", name, "surprise"):
            assert part in message
        for choice in type(DEFAULTS[name]):
            assert choice in message


def test_an_unknown_option_is_refused_with_the_nearest_known_one() -> None:
    typos = {"max_round": "max_rounds", "mc-samples": "mc_samples", "batchsize": "batch_size"}
    for typo, meant in typos.items():
        message = refusal_of({typo: 1})
        assert f"'{typo}'" in message
        assert f"'{meant}'" in message


def test_an_option_like_no_other_is_refused_with_where_the_help_is() -> None:
    message = refusal_of({"zzz": 1})
    assert "'zzz'" in message
    assert "--help" in message


def test_a_number_outside_its_range_is_refused_with_its_range() -> None:
    for name in NUMBERS:
        low, high = OPTIONS[name].metadata["low"], OPTIONS[name].metadata["high"]
        for outside in (low - 1, high + 1):
            value = type(DEFAULTS[name])(outside)
            message = refusal_of({name: value})
            for part in (name, str(value)):
                assert part in message
            for bound in (low, high):
                assert np.format_float_positional(bound, trim="-") in message.replace(",", "")


WRONG: dict[type, list[object]] = {
    bool: [None, [1], "true", 1, 0.0],
    int: [None, [1], "1", True, 1.5, float("nan")],
    float: [None, [1], "1", True, float("nan"), float("inf"), -float("inf")],
    str: [None, [1], 1, True],
}


def test_a_value_of_the_wrong_kind_is_refused_with_the_name_of_its_option() -> None:
    for name, option in OPTIONS.items():
        kind = type(option.default)
        for wrong in WRONG[str if issubclass(kind, StrEnum) else kind]:
            assert name in refusal_of({name: wrong})


def test_a_text_with_the_character_that_ends_file_names_is_refused() -> None:
    with pytest.raises(OptionError, match=r"cache.*U\+0000"):
        Config(cache="a\0b")


def test_two_options_that_contradict_are_refused_with_both_names() -> None:
    with pytest.raises(OptionError, match=r"growth_max.*growth_start"):
        Config(growth_start=20, growth_max=10)
    with pytest.raises(OptionError, match=r"steps.*epochs"):
        Config(steps=5, epochs=5)


def test_a_config_cannot_be_changed_only_replaced_and_a_replacement_is_checked() -> None:
    config = Config()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.seed = 3  # type: ignore[misc]
    assert config.replace(seed=3).seed == 3
    with pytest.raises(OptionError, match="seed"):
        config.replace(seed=-1)


def test_a_settings_file_that_cannot_be_read_is_refused_by_its_path(tmp_path: Path) -> None:
    broken, binary = tmp_path / "broken.toml", tmp_path / "binary.toml"
    broken.write_text("steps = = 3")
    binary.write_bytes(b"\xff\xfe\x00")
    # What has no end, such as a pipe or this device, is not read.
    for path in (broken, binary, tmp_path / "missing.toml", tmp_path, Path(os.devnull)):
        with pytest.raises(OptionError) as refusal:
            read_toml(path)
        assert str(path) in str(refusal.value)


def test_a_wrong_value_in_a_settings_file_is_refused_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('mode = "surprise"')
    with pytest.raises(OptionError, match=r"settings\.toml.*mode.*surprise"):
        Config.from_toml(path)


def test_neither_weights_nor_score_rest_on_a_noise_variance_that_is_not_learned() -> None:
    with pytest.raises(OptionError, match="weight_measure"):
        Config(noise_samples=0)
    with pytest.raises(OptionError, match="score"):
        Config(noise_samples=0, weights=Weighting.NONE, score=Measure.TOTAL_VARIANCE)
    Config(noise_samples=0, weights=Weighting.NONE)
    Config(noise_samples=0, weight_measure=Measure.PREDICTIVE_ENTROPY)


def test_an_image_size_is_chosen_from_the_data_or_not_too_small() -> None:
    with pytest.raises(OptionError, match="image_size"):
        Config(image_size=4)


@pytest.mark.parametrize("text", ["2%", " 2 %", "2.0%"])
def test_a_share_may_be_given_in_percent(text: str) -> None:
    assert Config.from_mapping({"target_error": text}).target_error == pytest.approx(0.02)


@pytest.mark.parametrize(("name", "value"), [("target_error", 2), ("confidence", 95)])
def test_a_share_above_one_is_refused_with_what_to_write(name: str, value: int) -> None:
    with pytest.raises(OptionError, match=f"{value}% or 0"):
        Config.from_mapping({name: value})
    with pytest.raises(OptionError, match="such as"):
        Config.from_mapping({name: "few%"})
