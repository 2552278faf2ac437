"""Images that could not be reached when a run began: broken shards, missing objects, no access.

The run goes on with the others. ``resume`` looks again, and adds what can be read by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.pixels import relocate_files
from surelabel.dataset.shards import BROKEN
from surelabel.dataset.sources import find_images
from surelabel.errors import InputError
from surelabel.messages.run import still_unread_sentence, taken_up_sentence, unread_sentence
from surelabel.runs.folder import RunFolder, read_skipped
from surelabel.selftraining.events import Advice
from surelabel.workflows.label import SILENT, UNREAD, Listeners, add

if TYPE_CHECKING:
    from surelabel.dataset.sources import Images


def take_up_unread(
    folder: RunFolder, images: Images | None = None, listeners: Listeners = SILENT
) -> None:
    """Add to the run what could not be read when it began, as far as it can be read now.

    ``images`` is where the images are now, if they were moved. Nothing is lost if they cannot be
    reached this time either: the run goes on with what it has.
    """
    origin = images if images is not None else str(folder.about.get("images", ""))
    if not folder.about.get(UNREAD) or (isinstance(origin, str) and origin[:1] in ("", "<")):
        return
    labels = str(folder.about.get("labels", ""))
    cache, on_progress = cache_folder(folder.config.cache), listeners.on_progress
    try:
        source = find_images(origin, cache, on_progress)
        with folder.lock():
            moved = relocate_files(folder.catalog, source, cache, on_progress)
            if moved.files.tolist() != folder.catalog.files.tolist():
                folder.replace_catalog(moved)
        given = labels if labels[:1] not in ("", "<") else None
        added = add(folder, source, given, on_progress=on_progress)
    except InputError as error:
        listeners.on_event(Advice(still_unread_sentence(str(error))))
        return
    catalog = folder.catalog  # with what was skipped just now, which its file does not keep
    _update_skipped(folder, catalog)
    if added.images:
        listeners.on_event(Advice(taken_up_sentence(added.images)))
    unread = [item for item in catalog.skipped if item.unread]
    if unread:
        first = unread[0]
        text = unread_sentence(len(unread), first.path, first.reason, str(folder.path))
        listeners.on_event(Advice(text))


def _update_skipped(folder: RunFolder, catalog: Catalog) -> None:
    """Record what is still unread, and take from the list of skipped files what is not."""
    now = {item.path for item in catalog.skipped}
    read = set(catalog.paths.tolist())
    rows = [
        (path, reason)
        for path, reason in read_skipped(folder.skipped_path)
        if path not in read and (path in now or not reason.startswith(BROKEN))
    ]
    with folder.lock():
        folder.note({UNREAD: sum(item.unread for item in catalog.skipped)})
        folder.replace_skipped(rows)
