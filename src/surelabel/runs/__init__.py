"""The run folder: atomic writes, the lock, resume, people's answers.

RUN/
  run.json             versions, time, seed, torch build, where images and labels came from
  config.toml          the settings as used
  catalog.parquet      the images and the labels they came with
  skipped.csv          images that were left out, and why
  rounds/001/          a finished round: weights, scores, metrics, digests of its files
  rounds/002.partial/  the round under way, with checkpoints
  answers.sqlite       people's answers, nothing else
  annotations.parquet  the result
  promise.json         each look at the certify labels and what came of it
  audits.json          checks of accepted labels by people
  report.html report/  what the run did, on one page, and its figures
  lock                 held by the process that trains
"""

from surelabel.runs.answers import Answer, AnswerConflictError, AnswerKind, AnswerStore, Purpose
from surelabel.runs.folder import FIGURES, REPORT, RunFolder
from surelabel.runs.rounds import HELD_OUT_TABLE, POOL_TABLE, PartialRound, RoundFiles

__all__ = [
    "FIGURES",
    "HELD_OUT_TABLE",
    "POOL_TABLE",
    "REPORT",
    "Answer",
    "AnswerConflictError",
    "AnswerKind",
    "AnswerStore",
    "PartialRound",
    "Purpose",
    "RoundFiles",
    "RunFolder",
]
