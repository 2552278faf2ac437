// Images, fetched and decoded ahead of time.

import { make } from "./dom.js";

const KEEP = 60;
const TINY = 200;
const kept = new Map();

/** The image of an item, on its way or ready. */
export function picture(id) {
  let entry = kept.get(id);
  if (!entry) {
    const image = make("img", { alt: "", src: `/image/${id}` });
    entry = { image, state: "coming" };
    entry.ready = image.decode().then(
      () => {
        entry.state = "ready";
        image.classList.toggle("tiny", Math.max(image.naturalWidth, image.naturalHeight) < TINY);
      },
      () => {
        entry.state = "lost";
      },
    );
  }
  kept.delete(id);
  kept.set(id, entry);
  while (kept.size > KEEP) kept.delete(kept.keys().next().value);
  return entry;
}

/** Put the item's image into `frame`. An old image never stays beside new words. */
export function show(frame, id, alt) {
  const entry = picture(id);
  entry.image.alt = alt;
  frame.replaceChildren(entry.image);
  frame.dataset.state = entry.state;
  if (entry.state === "ready") return;
  entry.ready.then(() => {
    if (!frame.contains(entry.image)) return;
    frame.dataset.state = entry.state;
    if (entry.state === "ready") return;
    kept.delete(id);
    const text = "This image cannot be shown: its file is gone, and so are its decoded pixels.";
    frame.replaceChildren(make("p", { textContent: text }));
  });
}
