"""``surelabel`` and ``python -m surelabel``."""

from __future__ import annotations

import os
import signal
import sys

_INTERRUPTED = 130
"""Exit code after ctrl-C."""


def main() -> None:
    """Run the command line and exit with its exit code."""
    try:
        from surelabel.cli.main import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        _leave_at_once()
    sys.exit(code)


def _leave_at_once() -> None:
    """End the process without waiting for its threads, and deaf to another ctrl-C.

    A second ctrl-C would interrupt Python's wait for threads that are inside PyTorch. Python then
    ends under their feet, and C++ aborts with "terminate called without an active exception".
    Nothing is lost: files of a run appear whole or not at all, at any moment.
    """
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
