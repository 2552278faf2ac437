from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from engine_data import (
    N_HUMAN,
    digit_images,
    first_inputs,
    later_inputs,
    make_problem,
    pick,
    same_predictions,
    same_weights,
    stop_at,
    tiny,
    trained,
    weights_of,
)

from surelabel.config.choices import Net
from surelabel.config.settings import Config
from surelabel.engines import member_training
from surelabel.engines.cross_fitting import assign_folds
from surelabel.engines.device import choose_device, prepare
from surelabel.engines.ensemble import Ensemble, load_ensemble
from surelabel.engines.inputs import Images
from surelabel.engines.local import LocalLearner
from surelabel.engines.storage import weights_path
from surelabel.errors import OptionError, TooFewLabelsError
from surelabel.models.growing_densenet import GrowingDenseNet
from surelabel.models.nets import build_net
from surelabel.selftraining.round_inputs import Problem, RoundInputs
from surelabel.training.trainer import Trainer, TrainingSet
from surelabel.types import Progress, derive_seed


@pytest.fixture(name="images", scope="module")
def fixture_images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    torch.set_num_threads(1)
    return digit_images(tmp_path_factory.mktemp("digits"))


@pytest.fixture(name="problem")
def fixture_problem(images: Images) -> Problem:
    return make_problem(images.catalog)


@pytest.fixture(name="few")
def fixture_few(images: Images) -> Problem:
    """The same without tune labels."""
    return make_problem(images.catalog, cross_fit=True)


def trained_on_people_alone(config: Config, images: Images, problem: Problem) -> torch.nn.Module:
    """Supervised learning, with the seeds of the first member of the first round."""
    seed = derive_seed(config.seed, 1, "member", 0)
    generator = torch.Generator().manual_seed(derive_seed(seed, "weights"))
    net = build_net(config, size=8, channels=1, n_classes=3, k=0, generator=generator)
    net.pixel_mean, net.pixel_std = images.statistics(config.seed)
    nobody = torch.empty(0, dtype=torch.int64)
    data = TrainingSet(
        pixels=images.pixels,
        human_rows=images.rows(problem.human_ids),
        human_labels=torch.from_numpy(problem.human_labels),
        pseudo_rows=nobody,
        pseudo_labels=nobody,
        pseudo_weights=torch.empty(0),
        tune_rows=images.rows(problem.tune_ids),
        tune_labels=torch.from_numpy(problem.tune_labels),
    )
    Trainer(net, data, config, steps=config.steps, seed=seed).run()
    return net


def test_zero_rounds_of_self_training_are_supervised_learning(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    learner = trained(tiny(), images, first_inputs(problem), tmp_path)
    supervised = trained_on_people_alone(tiny(), images, problem)
    assert same_weights(weights_of(learner), dict(supervised.state_dict()))


def test_the_first_round_looks_at_the_pool_for_consistency_only(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    half = dataclasses.replace(problem, pool_ids=problem.pool_ids[:24])

    def weights(consistency: float, of: Problem, name: str) -> dict[str, torch.Tensor]:
        config = tiny(consistency=consistency, consistency_threshold=0.0)
        return weights_of(trained(config, images, first_inputs(of), tmp_path / name))

    assert same_weights(weights(0.0, problem, "a"), weights(0.0, half, "b"))
    assert not same_weights(weights(1.0, problem, "c"), weights(1.0, half, "d"))


def test_nothing_is_learned_from_outliers(images: Images, problem: Problem, tmp_path: Path) -> None:
    config = tiny(consistency=1.0, consistency_threshold=0.0)
    round_inputs = first_inputs(problem)
    half = dataclasses.replace(problem, pool_ids=problem.pool_ids[:24])
    odd = dataclasses.replace(round_inputs, outliers=problem.pool_ids[24:])
    without = trained(config, images, odd, tmp_path / "odd")
    fewer = trained(config, images, first_inputs(half), tmp_path / "fewer")
    all_of_them = trained(config, images, round_inputs, tmp_path / "all")
    assert same_weights(weights_of(without), weights_of(fewer))
    assert not same_weights(weights_of(without), weights_of(all_of_them))


def test_outliers_are_known_from_the_second_look_on_and_found_anew_by_another_attempt(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    config, round_inputs = tiny(members=2), first_inputs(problem)
    learner = trained(config, images, round_inputs, tmp_path)
    ids, odd = problem.pool_ids, problem.pool_ids[:5]
    before = learner.predict(ids)
    again = learner.distances_from(odd, problem, ids, tmp_path)
    assert again is not None
    held_out, pool = again.held_out, again.pool
    assert before.distance is not None
    assert not np.allclose(pool, before.distance)
    loaded = load_ensemble(
        [tmp_path / f"weights-{m}.safetensors" for m in range(2)], 1, config, images
    )
    assert held_out == pytest.approx(loaded.predict_held_out(problem).distance, rel=1e-3)
    assert pool == pytest.approx(loaded.predict(ids).distance, rel=1e-3)
    resumed = trained(config, images, round_inputs, tmp_path)
    assert resumed.predict(ids).distance == pytest.approx(before.distance, rel=1e-6)


def test_without_the_search_for_outliers_there_are_no_distances(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    learner = trained(tiny(out_of_distribution=False), images, first_inputs(problem), tmp_path)
    assert learner.predict(problem.pool_ids).distance is None
    assert not list(tmp_path.glob("reference-*"))


def test_out_of_fold_images_are_looked_at_by_the_member_that_left_them_out(
    images: Images, few: Problem, tmp_path: Path
) -> None:
    round_inputs = first_inputs(few)
    learner = trained(tiny(members=2), images, round_inputs, tmp_path)
    again = learner.distances_from(few.pool_ids[:5], few, few.pool_ids, tmp_path)
    assert again is not None
    files = [tmp_path / f"weights-{m}.safetensors" for m in range(2)]
    loaded = load_ensemble(files, 1, tiny(members=2), images)
    assert again.held_out == pytest.approx(loaded.predict_held_out(few).distance, rel=1e-3)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    def learner(seed: int, name: str) -> Ensemble:
        return trained(tiny(seed=seed), images, first_inputs(problem), tmp_path / name)

    one, again, other = learner(1, "one"), learner(1, "again"), learner(2, "other")
    assert same_weights(weights_of(one), weights_of(again))
    assert not same_weights(weights_of(one), weights_of(other))
    ids = problem.pool_ids
    assert same_predictions(one.predict(ids), again.predict(ids))
    assert not same_predictions(one.predict(ids), other.predict(ids))


def test_members_and_rounds_start_from_weights_of_their_own(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    config = tiny(members=2)
    round_inputs = first_inputs(problem)
    first = trained(config, images, round_inputs, tmp_path / "1")
    second = trained(config, images, dataclasses.replace(round_inputs, number=2), tmp_path / "2")
    assert not same_weights(weights_of(first, 0), weights_of(first, 1))
    assert not same_weights(weights_of(first, 0), weights_of(second, 0))


def test_machine_labels_are_learned_with_their_weights(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    round_inputs = later_inputs(problem, 2)
    plain = trained(tiny(), images, round_inputs, tmp_path / "plain")
    heavy = dataclasses.replace(round_inputs, pseudo_weights=round_inputs.pseudo_weights * 3)
    other = dataclasses.replace(round_inputs, pseudo_labels=(round_inputs.pseudo_labels + 1) % 3)
    for name, changed in (("heavy", heavy), ("other", other)):
        learner = trained(tiny(), images, changed, tmp_path / name)
        assert not same_weights(weights_of(plain), weights_of(learner))


def test_a_prediction_does_not_depend_on_which_images_are_asked_about(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    learner = trained(tiny(), images, first_inputs(problem), tmp_path)
    every = learner.predict(problem.pool_ids)
    few = learner.predict(pick(problem.pool_ids, 30, 4, 11))
    assert few.ids.tolist() == problem.pool_ids[[30, 4, 11]].tolist()
    assert few.probabilities == pytest.approx(every.probabilities[[30, 4, 11]], abs=1e-6)


def test_every_out_of_fold_prediction_comes_from_the_member_that_left_the_image_out(
    images: Images, few: Problem, tmp_path: Path
) -> None:
    learner = trained(tiny(members=2), images, first_inputs(few), tmp_path)
    held_out = learner.predict_held_out(few)
    assert sorted(held_out.ids.tolist()) == sorted(few.human_ids.tolist())
    folds = assign_folds(few.human_labels, images.catalog.units(few.human_ids), 2, 1)
    fold = dict(zip(few.human_ids.tolist(), folds.tolist(), strict=True))
    for number, member in enumerate(learner.members):
        alone = dataclasses.replace(learner, members=(member,))
        mine = np.array([fold[item] == number for item in held_out.ids.tolist()])
        assert 0 < mine.sum() < len(mine)
        predicted = alone.predict(held_out.ids[mine])
        assert np.array_equal(predicted.probabilities, held_out.probabilities[mine])


def test_the_label_of_an_image_does_not_touch_its_own_out_of_fold_prediction(
    images: Images, few: Problem, tmp_path: Path
) -> None:
    """The last human image is a copy of the first: both are one unit, in the first's fold."""
    labels = few.human_labels.copy()
    labels[N_HUMAN - 1] = (labels[N_HUMAN - 1] + 1) % 3
    torn = dataclasses.replace(few, human_labels=labels)
    one = trained(tiny(members=2), images, first_inputs(few), tmp_path / "one")
    other = trained(tiny(members=2), images, first_inputs(torn), tmp_path / "other")
    copies = {few.human_ids[0], few.human_ids[-1]}

    def predicted(learner: Ensemble, problem: Problem) -> dict[str, list[float]]:
        held_out = learner.predict_held_out(problem)
        return dict(zip(held_out.ids.tolist(), held_out.probabilities.tolist(), strict=True))

    before, after = predicted(one, few), predicted(other, torn)
    assert all(before[str(item)] == after[str(item)] for item in copies)
    assert any(before[item] != after[item] for item in before), "the other member did see it"


def test_nor_does_it_in_the_second_round(images: Images, few: Problem, tmp_path: Path) -> None:
    """Each member learns from guesses of its own, so no other tells it what is held out."""
    labels = few.human_labels.copy()
    labels[N_HUMAN - 1] = (labels[N_HUMAN - 1] + 1) % 3
    copies = {few.human_ids[0], few.human_ids[-1]}
    predicted = []
    for name, given in (("one", few.human_labels), ("other", labels)):
        problem = dataclasses.replace(few, human_labels=given)
        first = tmp_path / name / "1"
        trained(tiny(members=2, steps=30), images, first_inputs(problem), first)
        round_inputs = later_inputs(problem, 2, first)
        learner = trained(tiny(members=2), images, round_inputs, tmp_path / name / "2")
        held_out = learner.predict_held_out(round_inputs.problem)
        predicted.append(
            dict(zip(held_out.ids.tolist(), held_out.probabilities.tolist(), strict=True))
        )
    assert all(predicted[0][str(item)] == predicted[1][str(item)] for item in copies)
    assert predicted[0] != predicted[1]


def test_training_that_goes_astray_begins_anew_at_a_lower_rate(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    learner = trained(tiny(learning_rate=10.0, steps=40), images, first_inputs(problem), tmp_path)
    (member,) = learner.report()["members"]
    assert member["learning_rate"] < 10
    assert member["attempt"] > 1
    assert np.isfinite(learner.predict(problem.pool_ids).probabilities).all()
    assert not list((tmp_path / "checkpoints").iterdir())


def test_out_of_fold_learning_makes_two_members_though_one_is_asked_for(
    images: Images, few: Problem, tmp_path: Path
) -> None:
    learner = trained(tiny(members=1), images, first_inputs(few), tmp_path)
    assert len(learner.members) == 2
    assert len(learner.report()["members"]) == 2


def test_labels_of_one_group_only_get_a_sentence(
    images: Images, few: Problem, tmp_path: Path
) -> None:
    catalog = images.catalog
    one_lot = dataclasses.replace(catalog, groups=np.full(len(catalog), "lot 7"))
    grouped = Images(one_lot, images._store)
    with pytest.raises(TooFewLabelsError, match="one group"):
        trained(tiny(), grouped, first_inputs(few), tmp_path)


@pytest.mark.parametrize(
    ("calls", "seconds"), [(n, 0.0) for n in range(1, 7)] + [(2, 1000.0), (5, 1000.0)]
)
def test_an_interrupted_round_ends_as_the_uninterrupted_one(
    images: Images,
    problem: Problem,
    whole: Ensemble,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    calls: int,
    seconds: float,
) -> None:
    """Two members report three times each: at steps 0 and 10 and at the end."""
    monkeypatch.setattr(member_training, "CHECKPOINT_SECONDS", seconds)
    config, round_inputs = tiny(members=2, consistency=1.0), later_inputs(problem, 2)
    with pytest.raises(KeyboardInterrupt):
        LocalLearner(config, images).train(round_inputs, tmp_path, stop_at(calls))
    reports: list[Progress] = []
    learner = LocalLearner(config, images).train(round_inputs, tmp_path, reports.append)
    ids = problem.pool_ids
    assert same_weights(weights_of(learner, 0), weights_of(whole, 0))
    assert same_weights(weights_of(learner, 1), weights_of(whole, 1))
    assert same_predictions(learner.predict(ids), whole.predict(ids))
    assert list((tmp_path / "checkpoints").iterdir()) == []
    finished = (calls - 1) // 3
    from_checkpoint = (calls - 1) % 3 if seconds == 0 else 0
    assert len(reports) == 6 - 3 * finished - from_checkpoint, "finished work is not done again"


@pytest.fixture(name="whole", scope="module")
def fixture_whole(images: Images, tmp_path_factory: pytest.TempPathFactory) -> Ensemble:
    round_inputs = later_inputs(make_problem(images.catalog), 2)
    config = tiny(members=2, consistency=1.0)
    return trained(config, images, round_inputs, tmp_path_factory.mktemp("whole"))


def test_a_net_that_trains_beside_others_is_the_one_that_trains_when_they_are_done(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    """With two threads, and nets large enough for two to add up otherwise than one."""
    config, round_inputs = tiny(members=2, width=1.0, batch_size=64), later_inputs(problem, 2)
    torch.set_num_threads(2)
    try:
        both = trained(config, images, round_inputs, tmp_path / "both")
        (tmp_path / "one").mkdir()
        first = weights_path(tmp_path / "both", 0)
        shutil.copyfile(first, weights_path(tmp_path / "one", 0))
        last = trained(config, images, round_inputs, tmp_path / "one")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert same_weights(weights_of(both, 1), weights_of(last, 1))


def test_a_finished_round_is_loaded_and_not_trained_again(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    round_inputs = first_inputs(problem)
    first = trained(tiny(), images, round_inputs, tmp_path)
    reports: list[Progress] = []
    again = LocalLearner(tiny(), images).train(round_inputs, tmp_path, reports.append)
    assert reports == []
    assert again.report() == first.report()
    assert same_predictions(first.predict(problem.pool_ids), again.predict(problem.pool_ids))


def test_an_interrupted_round_with_early_stop_ends_as_the_uninterrupted_one(
    images: Images, problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_training, "CHECKPOINT_SECONDS", 0.0)
    config, round_inputs = tiny(early_stop=3, steps=40), first_inputs(problem)
    whole = trained(config, images, round_inputs, tmp_path / "whole")
    part = tmp_path / "part"
    part.mkdir()
    with pytest.raises(KeyboardInterrupt):
        LocalLearner(config, images).train(round_inputs, part, stop_at(2))
    resumed = trained(config, images, round_inputs, part)
    assert same_weights(weights_of(whole), weights_of(resumed))
    assert whole.report() == resumed.report()


def test_loaded_weights_predict_as_they_did_after_training(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    config = tiny(members=2)
    round_inputs = dataclasses.replace(first_inputs(problem), number=3)
    first = trained(config, images, round_inputs, tmp_path / "work")
    shutil.move(tmp_path / "work", tmp_path / "kept")
    loaded = load_ensemble(
        [tmp_path / "kept" / f"weights-{m}.safetensors" for m in range(2)], 3, config, images
    )
    ids = problem.pool_ids
    assert same_predictions(first.predict(ids), loaded.predict(ids))
    assert same_predictions(
        first.predict_held_out(problem),
        loaded.predict_held_out(round_inputs.problem),
    )


def test_the_report_has_the_facts_of_each_member(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    report = trained(tiny(), images, first_inputs(problem), tmp_path).report()
    assert report["mc_samples"] == 3
    (member,) = report["members"]
    assert member["steps"] == 12
    assert member["images_seen"] == 12 * 16
    assert member["n_classes"] == 3
    assert all(0 < p < 1 for p in member["dropout"])
    assert member["tune_loss"] > 0


def densenet(**changes: object) -> Config:
    return tiny(
        net=Net.DENSENET,
        steps=3,
        batch_size=8,
        mc_samples=2,
        growth_start=2,
        growth_max=6,
        growth_nu=1.0,
        **changes,
    )


@pytest.mark.parametrize("warm", [False, True])
def test_the_densenet_grows_from_round_to_round(
    images: Images, problem: Problem, tmp_path: Path, warm: bool
) -> None:
    """With a learning rate of almost nothing a net ends where it started."""
    still = {"learning_rate": 1e-9, "weight_average": 0.0, "roll_back": False}
    config = densenet(growth_warm=warm, **still)
    first = trained(config, images, first_inputs(problem), tmp_path / "1")
    round_inputs: RoundInputs = later_inputs(problem, 2, before=tmp_path / "1")
    second = trained(config, images, round_inputs, tmp_path / "2")
    assert [r["members"][0]["k"] for r in (first.report(), second.report())] == [2, 3]
    small, large = first.members[0].net, second.members[0].net
    assert isinstance(small, GrowingDenseNet)
    assert isinstance(large, GrowingDenseNet)
    stems = small.get_parameter("stem.weight"), large.get_parameter("stem.weight")
    inherited = torch.allclose(stems[0], stems[1][:4], atol=1e-6)
    assert inherited == warm
    prediction = second.predict(problem.pool_ids)
    assert prediction.probabilities.sum(axis=1) == pytest.approx(np.ones(len(prediction)))
    again = load_ensemble([tmp_path / "2" / "weights-0.safetensors"], 2, config, images)
    assert same_predictions(prediction, again.predict(problem.pool_ids))


def test_a_warm_densenet_starts_anew_when_there_is_a_new_class(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    config = densenet(growth_warm=True, roll_back=False)
    trained(config, images, first_inputs(problem), tmp_path / "1")
    more = dataclasses.replace(problem, classes=("0", "1", "2", "3"))
    second = trained(config, images, later_inputs(more, 2, tmp_path / "1"), tmp_path / "2")
    assert second.predict(problem.pool_ids).probabilities.shape == (len(problem.pool_ids), 4)


@pytest.mark.parametrize(
    ("case", "goes_on"),
    [("asked for", True), ("not asked for", False), ("a new class", False), ("few labels", False)],
)
def test_a_compact_net_goes_on_from_the_round_before(
    images: Images, problem: Problem, few: Problem, tmp_path: Path, case: str, goes_on: bool
) -> None:
    """With a learning rate of almost nothing a net ends where it started."""
    config = tiny(warm_start=case != "not asked for", members=2, roll_back=False)
    known = few if case == "few labels" else problem
    first = trained(config, images, first_inputs(known), tmp_path / "1")
    if case == "a new class":
        known = dataclasses.replace(known, classes=("0", "1", "2", "3"))
    still = config.replace(learning_rate=1e-9, weight_average=0.0, weight_decay=0.0)
    second = trained(still, images, later_inputs(known, 2, tmp_path / "1"), tmp_path / "2")
    for member in range(2):
        one, other = (weights_of(r, member)["tail.hidden.weight"] for r in (first, second))
        assert torch.allclose(one, other, atol=1e-6) == goes_on
    about = second.report()["members"][0]
    assert about["learning_rate"] == pytest.approx(0.4e-9 if goes_on else 1e-9)
    assert about["attempt"] == 1


def test_a_device_is_taken_by_name() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type in {"cpu", "cuda"}
    for absent in ("gpu", "cuda:99"):
        with pytest.raises(OptionError, match="use cpu or auto"):
            choose_device(absent)


def test_the_thread_count_is_set_and_noted() -> None:
    before = torch.get_num_threads()
    try:
        about = prepare(Config(threads=2, device="cpu"))
        assert torch.get_num_threads() == 2
        assert about == {"torch": torch.__version__, "threads": 2, "device": "cpu"}
        assert prepare(Config(threads=0))["threads"] >= 1
    finally:
        torch.set_num_threads(before)
