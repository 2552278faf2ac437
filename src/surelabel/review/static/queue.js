// The review queue: which image comes next, what is answered or skipped, what others view.

import { client, get } from "./server.js";

const BATCH = 40;
const MAX_ITEMS = 200;

export class Queue {
  ids = [];
  items = new Map(); // what the page knows of each image, by id
  #place = new Map();
  #answered = new Set();
  #skipped = [];
  #skippedKey = "skipped";
  #viewing = new Map();
  #loads = 0;
  #changed = new Map(); // answers since the last load began: its response may lack them

  /**
   * Fetch the queue in `order`; false if a later call made this one obsolete. What is known of the
   * image that `shownNow()` names is kept, so that it can be answered meanwhile.
   */
  async load(order, run, shownNow) {
    const load = (this.#loads += 1);
    this.#changed = new Map();
    const { ids, answered, viewing } = await get("queue", { order });
    if (load !== this.#loads) return false;
    this.ids = ids;
    this.#place = new Map(ids.map((id, place) => [id, place]));
    this.#answered = new Set(answered);
    for (const [id, isAnswered] of this.#changed) this.setAnswered(id, isAnswered);
    this.#viewing = new Map(Object.entries(viewing));
    this.#skippedKey = `skipped:${run}`;
    const skipped = JSON.parse(localStorage.getItem(this.#skippedKey) ?? "[]");
    this.#skipped = skipped.filter((id) => this.has(id) && !this.#answered.has(id));
    const shown = shownNow(); // another one than when the request was sent, perhaps
    const kept = this.items.get(shown);
    this.items.clear();
    if (kept) this.items.set(shown, kept);
    return true;
  }

  get total() {
    return this.ids.length;
  }

  get done() {
    return this.#answered.size;
  }

  get skipped() {
    return this.#skipped.filter((id) => !this.#answered.has(id));
  }

  has(id) {
    return this.#place.has(id);
  }

  /** Fetch what is known of `ids`, unless it is here already. */
  async fetchItems(ids) {
    const missing = ids.filter((id) => !this.items.has(id)).slice(0, MAX_ITEMS);
    if (!missing.length) return;
    for (const item of await get("items", { ids: missing.join(",") })) {
      if (!this.items.has(item.id)) this.items.set(item.id, item);
    }
  }

  /** Fetch again what is known of `id`. */
  async refetchItem(id) {
    for (const item of await get("items", { ids: id })) this.items.set(item.id, item);
  }

  setAnswered(id, isAnswered) {
    this.#changed.set(id, isAnswered);
    if (!this.has(id)) return;
    if (isAnswered) this.#answered.add(id);
    else this.#answered.delete(id);
  }

  skip(id) {
    this.#setSkipped([...this.#skipped.filter((other) => other !== id), id]);
  }

  unskip(id) {
    if (!this.#skipped.includes(id)) return;
    this.#setSkipped(this.#skipped.filter((other) => other !== id));
  }

  #setSkipped(ids) {
    this.#skipped = ids;
    localStorage.setItem(this.#skippedKey, JSON.stringify(ids));
  }

  /** Page `who` shows image `id` now, or none. */
  setViewing(who, id) {
    if (id) this.#viewing.set(who, id);
    else this.#viewing.delete(who);
  }

  /**
   * The images without an answer, from the one after `id` on. Skipped ones come at the end, after
   * them those that another reviewer views.
   */
  *open(id = null) {
    const viewed = new Set([...this.#viewing].filter(([who]) => who !== client).map(([, at]) => at));
    const skipped = new Set(this.#skipped);
    const start = id === null ? 0 : (this.#place.get(id) ?? -1) + 1;
    const isOpen = (other) => other !== id && !this.#answered.has(other);
    const isFree = (other) => isOpen(other) && !skipped.has(other) && !viewed.has(other);
    const n = this.ids.length;
    for (let i = 0; i < n; i += 1) {
      const other = this.ids[(start + i) % n];
      if (isFree(other)) yield other;
    }
    for (const other of this.#skipped) if (isOpen(other) && !viewed.has(other)) yield other;
    for (const other of viewed) if (isOpen(other) && this.has(other)) yield other;
  }

  /** The image to answer after `id`; undefined if none is left. */
  next(id) {
    return this.open(id).next().value;
  }

  /** The images to fetch while `id` is shown. */
  upcoming(id) {
    const ids = [];
    for (const other of this.open(id)) {
      ids.push(other);
      if (ids.length >= BATCH) break;
    }
    return ids;
  }

  /** The image `step` places away in the whole queue, answered or not. */
  neighbor(id, step) {
    if (!this.ids.length) return null;
    const place = this.#place.get(id) ?? 0;
    return this.ids[(place + step + this.ids.length) % this.ids.length];
  }
}
