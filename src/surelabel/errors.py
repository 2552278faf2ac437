"""The errors that users see, as one tree.

SurelabelError                a message for the user: what is wrong, where, what to do
├── InputError                images, labels or arguments that cannot be used
│   ├── OptionError           an option outside its range, or two that contradict
│   ├── LabelsError           a label table with a fault (file and line are in the text)
│   └── TooFewLabelsError     not enough labels to learn from
├── RunError                  a run folder that cannot be used
│   ├── RunLockedError        another process is training this run
│   ├── AnswerConflictError   somebody else answered first (in runs/answers.py)
│   └── RunDamagedError       a file of the run is missing or does not fit its digest
├── DivergedError             the training loss became infinite or NaN
├── WorkerLostError           workers of a cluster died again and again (in engines/ray_cluster.py)
└── NothingLabeledError       the run ended and accepted no label

Any other exception is a bug in surelabel and may show a traceback, but for those of a machine
without memory: ``is_out_of_memory`` knows them.
"""

from __future__ import annotations

import errno

OUT_OF_MEMORY = (
    "There is not enough memory. Close other programs, or take less of it: fewer --threads, fewer "
    "--members, a smaller --batch-size or a smaller --image-size."
)
_ALLOCATION_FAILURES = (
    "out of memory",  # CUDA, Arrow, SQLite
    "allocate memory",  # PyTorch on the CPU
    "bad_alloc",  # libraries in C++
    "could not create a primitive",  # oneDNN
    "start new thread",  # Python: the stack of a thread
    "failed to map segment",  # the loader of shared libraries
)


class SurelabelError(Exception):
    """Base class of errors that users can act on; ``str(error)`` is the whole message.

    ``exit_code`` is what the command line returns.
    """

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
    """A run folder that cannot be used for what the user wants."""

    exit_code = 3


class RunLockedError(RunError):
    """Another process is training this run."""


class RunDamagedError(RunError):
    """A file of the run is missing or is not what was written."""


class DivergedError(SurelabelError):
    """Training diverged: a setting does not suit the data."""


class NothingLabeledError(SurelabelError):
    """The run ended and accepted no label."""

    exit_code = 4


def is_out_of_memory(error: BaseException) -> bool:
    """Whether ``error``, or what it was raised from, says that memory could not be allocated."""
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    text = str(error).lower()
    if isinstance(error, MemoryError) or any(words in text for words in _ALLOCATION_FAILURES):
        return True
    return error.__cause__ is not None and is_out_of_memory(error.__cause__)
