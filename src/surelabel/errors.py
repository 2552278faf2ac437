"""What can go wrong, as one tree.

SurelabelError                a sentence for the user: what is wrong, where, what to do
├── InputError                images, labels or arguments that cannot be used
│   ├── OptionError           an option outside its range, or two that contradict
│   ├── LabelsError           a label table with a fault (file and line are in the text)
│   └── TooFewLabelsError     not enough labels to learn from
├── RunError                  a run folder that cannot be used as asked
│   ├── RunLockedError        another process is training this run
│   ├── AnswerConflictError   somebody answered meanwhile (in runs/answers.py)
│   └── RunDamagedError       a file of the run is missing or does not fit its digest
├── DivergedError             training went astray
└── NothingLabeledError      the run ended and accepted no label

Any other exception is a bug of ours and may show a trace.
"""

from __future__ import annotations


class SurelabelError(Exception):
    """Base of every error that is the user's to read; ``str(error)`` is the whole message."""

    exit_code = 1


class InputError(SurelabelError):
    """Images, labels or arguments that cannot be used."""

    exit_code = 2


class OptionError(InputError):
    """An option outside its range, or two options that contradict each other."""


class LabelsError(InputError):
    """A label table with a fault; the message names the file and the line."""


class TooFewLabelsError(InputError):
    """Not enough labels to learn from and to check against."""


class RunError(SurelabelError):
    """A run folder that cannot be used as asked."""

    exit_code = 3


class RunLockedError(RunError):
    """Another process is training this run."""


class RunDamagedError(RunError):
    """A file of the run is missing or is not what was written."""


class DivergedError(SurelabelError):
    """Training went astray: a setting does not fit the data."""


class NothingLabeledError(SurelabelError):
    """The run ended and accepted no label."""

    exit_code = 4
