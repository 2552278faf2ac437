// Similar images side by side: leave out the odd ones, label the rest with one key.

import { get } from "./api.js";
import { byId, make, plural } from "./dom.js";

const SIZE = 24;

export class Grid {
  #queue;
  #selected = new Set();
  #asked = 0;
  #shown = null;
  ids = [];
  isReady = false;

  constructor(queue) {
    this.#queue = queue;
    byId("grid-all").onclick = () => this.#select(this.ids);
    byId("grid-none").onclick = () => this.#select([]);
    byId("tiles").addEventListener("keydown", (event) => this.#move(event));
  }

  get isOpen() {
    return !byId("grid").hidden;
  }

  get selected() {
    return this.ids.filter((id) => this.#selected.has(id));
  }

  get unselected() {
    return this.ids.filter((id) => !this.#selected.has(id));
  }

  /** Other images are on their way: those shown must not be answered again. */
  wait() {
    this.isReady = false;
  }

  /** These were answered: what was left out of them is no longer. */
  forget() {
    this.#shown = null;
  }

  /** Show what looks like `id`; shown again, what was left out stays out. */
  async open(id) {
    const number = (this.#asked += 1);
    const ids = await get("alike", { id, n: SIZE });
    await this.#queue.describe(ids);
    if (number !== this.#asked) return;
    const leftOut = new Set(id === this.#shown ? this.unselected : []);
    this.ids = ids;
    this.#shown = id;
    byId("tiles").replaceChildren(...this.ids.map((each, place) => this.#tile(each, place)));
    this.#select(ids.filter((each) => !leftOut.has(each)));
    this.isReady = true;
    byId("tiles").firstElementChild?.focus();
  }

  #tile(id, place) {
    const item = this.#queue.items.get(id);
    const guess = item.guesses?.[0]?.label ?? "";
    const image = make("img", { src: `/image/${id}?side=256`, alt: "" });
    image.onload = () => image.classList.toggle("tiny", image.naturalWidth < 120);
    return make(
      "button",
      {
        type: "button",
        className: "tile",
        tabIndex: place ? -1 : 0,
        "data-keys": "",
        "aria-label": guess ? `${item.path}, guess ${guess}` : item.path,
        onclick: () => this.#toggle(id),
      },
      image,
      make("span", { className: "name", textContent: guess }),
      make("span", { className: "tick", textContent: "✓", "aria-hidden": "true" }),
    );
  }

  #toggle(id) {
    const chosen = new Set(this.#selected);
    if (!chosen.delete(id)) chosen.add(id);
    this.#select(chosen);
  }

  #select(ids) {
    this.#selected = new Set(ids);
    [...byId("tiles").children].forEach((tile, place) =>
      tile.setAttribute("aria-pressed", this.#selected.has(this.ids[place])),
    );
    byId("grid-text").textContent =
      `${this.#selected.size} of ${plural(this.ids.length, "image")} selected: ` +
      "a class key labels them all.";
  }

  #move(event) {
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
