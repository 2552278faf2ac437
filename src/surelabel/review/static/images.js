// Shows images: one at a time, a grid of similar ones, or those that a search finds.

import { answerText } from "./answers.js";
import { byId, closeDialog, make, notify, plural } from "./dom.js";
import { Refused, get } from "./server.js";

const MAX_CACHED = 60;
const MEDIUM_SIDE = 1024;
const LARGE_SIDE = 1600;
const PIXELATED_BELOW = 200;
const PIXELATED_TILE_BELOW = 120;
const GRID_SIZE = 24;
const SEARCH_DELAY_MS = 120;

export const tileUrl = (id) => `/image/${id}?side=256`;

// One image

const cache = new Map(); // the last images, oldest first
let side = LARGE_SIDE;

/** Fetch images as large as `frame` shows them and not larger: decoding takes time. */
export function fitImagesTo(frame) {
  new ResizeObserver(([{ contentRect }]) => {
    if (!contentRect.width) return;
    const pixels = Math.max(contentRect.width, contentRect.height) * devicePixelRatio;
    const wanted = pixels > MEDIUM_SIDE ? LARGE_SIDE : MEDIUM_SIDE;
    if (wanted > side) cache.clear();
    side = wanted;
  }).observe(frame);
}

/** Fetch and decode an image, unless that has been done; `state` is coming, ready or lost. */
export function loadImage(id) {
  let entry = cache.get(id);
  if (!entry) {
    const image = make("img", { alt: "", src: `/image/${id}?side=${side}` });
    entry = { image, state: "coming" };
    entry.loaded = image.decode().then(
      () => {
        entry.state = "ready";
        const size = Math.max(image.naturalWidth, image.naturalHeight);
        image.classList.toggle("tiny", size < PIXELATED_BELOW);
      },
      () => {
        entry.state = "lost";
      },
    );
  }
  cache.delete(id);
  cache.set(id, entry);
  while (cache.size > MAX_CACHED) cache.delete(cache.keys().next().value);
  return entry;
}

/** Put an image into `frame`, at once: the one before must not stay beside another's guesses. */
export function showImage(frame, id, alt) {
  const entry = loadImage(id);
  entry.image.alt = alt;
  frame.replaceChildren(entry.image);
  frame.dataset.state = entry.state;
  if (entry.state === "ready") return;
  entry.loaded.then(() => {
    if (!frame.contains(entry.image)) return;
    frame.dataset.state = entry.state;
    if (entry.state === "ready") return;
    cache.delete(id);
    const text = "This image cannot be shown: its file and its decoded pixels are gone.";
    frame.replaceChildren(make("p", { textContent: text }));
  });
}

// The grid

/** Similar images side by side: deselect the odd ones, label the rest with one key. */
export class Grid {
  #queue;
  #selected = new Set();
  #loads = 0;
  #shown = null;
  #painted = new Set(); // only these can be answered
  ids = [];
  isReady = false;

  constructor(queue) {
    this.#queue = queue;
    byId("grid-all").onclick = () => this.#select(this.ids);
    byId("grid-none").onclick = () => this.#select([]);
    byId("tiles").addEventListener("keydown", (event) => this.#moveFocus(event));
  }

  get isOpen() {
    return !byId("grid").hidden;
  }

  get selected() {
    return this.ids.filter((id) => this.#selected.has(id));
  }

  get deselected() {
    return this.ids.filter((id) => !this.#selected.has(id));
  }

  open() {
    this.#setOpen(true);
  }

  close() {
    this.#setOpen(false);
  }

  #setOpen(isOpen) {
    byId("grid").hidden = !isOpen;
    byId("answer").classList.toggle("many", isOpen);
    byId("toggle-grid").setAttribute("aria-pressed", isOpen);
  }

  /** Other images are about to be shown: those shown now must not be answered again. */
  wait() {
    this.isReady = false;
  }

  /** The images shown were answered: do not remember which of them were deselected. */
  forget() {
    this.#shown = null;
  }

  /** Show the images similar to `id`; if shown again, what was deselected stays deselected. */
  async show(id) {
    const load = (this.#loads += 1);
    const ids = await get("similar", { id, n: GRID_SIZE });
    await this.#queue.fetchItems(ids);
    if (load !== this.#loads) return;
    const deselected = new Set(id === this.#shown ? this.deselected : []);
    this.ids = ids;
    this.#shown = id;
    this.#painted = new Set();
    const tiles = ids.map((each, place) => this.#tile(each, place));
    byId("tiles").replaceChildren(...tiles);
    byId("grid-accept").hidden = !ids.some((each) => this.#queue.items.get(each).guesses?.length);
    this.#select([]);
    await Promise.all(tiles.map((tile, place) => this.#paint(tile, ids[place])));
    if (load !== this.#loads) return;
    this.#select(ids.filter((each) => !deselected.has(each)));
    this.isReady = true;
    byId("tiles").querySelector("button:enabled")?.focus();
  }

  /** Wait until the image of a tile can be seen; one that cannot is never selected. */
  async #paint(tile, id) {
    const image = tile.querySelector("img");
    try {
      await image.decode();
      image.classList.toggle("tiny", image.naturalWidth < PIXELATED_TILE_BELOW);
      this.#painted.add(id);
    } catch {
      tile.disabled = true;
      image.replaceWith(make("span", { className: "lost", textContent: "This image cannot be shown." }));
    }
  }

  #tile(id, place) {
    const item = this.#queue.items.get(id);
    const guess = item.guesses?.[0]?.label ?? "";
    const image = make("img", { src: tileUrl(id), alt: "" });
    return make(
      "button",
      {
        type: "button",
        className: "tile",
        tabIndex: place ? -1 : 0,
        "aria-label": guess ? `${item.path}, guess ${guess}` : item.path,
        onclick: () => this.#toggle(id),
      },
      image,
      make("span", { className: "name", textContent: guess }),
      make("span", { className: "tick", textContent: "✓", "aria-hidden": "true" }),
    );
  }

  #toggle(id) {
    if (!this.isReady) return;
    const selected = new Set(this.#selected);
    if (!selected.delete(id)) selected.add(id);
    this.#select(selected);
  }

  #select(ids) {
    this.#selected = new Set([...ids].filter((id) => this.#painted.has(id)));
    [...byId("tiles").children].forEach((tile, place) =>
      tile.setAttribute("aria-pressed", this.#selected.has(this.ids[place])),
    );
    byId("grid-text").textContent =
      `${this.#selected.size} of ${plural(this.ids.length, "image")} selected: ` +
      "a class key labels all of them.";
  }

  #moveFocus(event) {
    const tiles = [...byId("tiles").children];
    const place = tiles.indexOf(document.activeElement);
    if (place < 0) return;
    const top = tiles[0].offsetTop;
    const columns = Math.max(1, tiles.filter((tile) => tile.offsetTop === top).length);
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const next = tiles[place + step];
    if (!next) return;
    tiles[place].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
}

// Search

let searches = 0;

/** Let the reviewer find an image by its file name; `onOpen(item)` gets it. */
export function searchImages(onOpen) {
  const dialog = byId("search");
  const input = byId("search-input");
  const open = (item) => {
    closeDialog(dialog);
    onOpen(item);
  };
  let timer = 0;
  input.oninput = () => {
    clearTimeout(timer);
    timer = setTimeout(() => showHits(input.value.trim(), open), SEARCH_DELAY_MS);
  };
  input.onkeydown = (event) => {
    if (event.key === "Enter") byId("search-list").querySelector("button")?.click();
  };
  dialog.showModal();
  input.select();
}

async function showHits(text, onOpen) {
  const search = (searches += 1);
  let hits = [];
  try {
    hits = text ? await get("search", { q: text }) : [];
  } catch (error) {
    if (error instanceof Refused) notify(error.message);
    return;
  }
  if (search !== searches) return;
  byId("search-text").textContent = hitsText(text, hits.length);
  byId("search-list").replaceChildren(...hits.map((item) => make("li", {}, hitButton(item, onOpen))));
}

function hitsText(text, n) {
  if (!text) return "You can find any image of the run and change its label.";
  return n ? `${plural(n, "image")} found.` : "No file name contains that.";
}

function hitButton(item, onOpen) {
  const label = item.answer ? answerText(item.answer) : item.label || "no label yet";
  return make(
    "button",
    { type: "button", className: "quiet", onclick: () => onOpen(item) },
    make("img", { src: tileUrl(item.id), alt: "", loading: "lazy" }),
    make("span", {}, item.path, make("small", { textContent: label })),
  );
}
