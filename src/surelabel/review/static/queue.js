// Which image comes next: what is asked, what is answered, what others look at.

import { client, get } from "./api.js";

const BATCH = 40;

export class Queue {
  ids = [];
  items = new Map();
  #place = new Map();
  #answered = new Set();
  #skipped = [];
  #looking = new Map();
  #key = "skipped";
  #asked = 0;
  #since = new Map();

  /** Fetch the images in `order`; false if another order was asked for meanwhile: that one counts. */
  async load(order, run) {
    const number = (this.#asked += 1);
    this.#since = new Map();
    const found = await get("queue", { order });
    if (number !== this.#asked) return false;
    this.ids = found.ids;
    this.#place = new Map(found.ids.map((id, place) => [id, place]));
    this.#answered = new Set(found.answered);
    for (const [id, answered] of this.#since) this.settle(id, answered);
    this.#looking = new Map(Object.entries(found.looking));
    this.#key = `skipped:${run}`;
    const known = JSON.parse(localStorage.getItem(this.#key) ?? "[]");
    this.#skipped = known.filter((id) => this.#place.has(id) && !this.#answered.has(id));
    this.items.clear();
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
  async describe(ids) {
    const missing = ids.filter((id) => !this.items.has(id)).slice(0, 200);
    if (!missing.length) return;
    for (const item of await get("items", { ids: missing.join(",") })) {
      if (!this.items.has(item.id)) this.items.set(item.id, item);
    }
  }

  /** Fetch again what is known of `id`. */
  async renew(id) {
    for (const item of await get("items", { ids: id })) this.items.set(item.id, item);
  }

  settle(id, answered) {
    this.#since.set(id, answered); // a queue on its way may not know of it
    if (!this.#place.has(id)) return;
    if (answered) this.#answered.add(id);
    else this.#answered.delete(id);
  }

  skip(id) {
    this.#setSkipped([...this.#skipped.filter((other) => other !== id), id]);
  }

  unskip(id) {
    if (!this.#skipped.includes(id)) return;
    this.#setSkipped(this.#skipped.filter((other) => other !== id));
  }

  unskipAll() {
    this.#setSkipped([]);
  }

  #setSkipped(ids) {
    this.#skipped = ids;
    localStorage.setItem(this.#key, JSON.stringify(ids));
  }

  look(who, id) {
    if (id) this.#looking.set(who, id);
    else this.#looking.delete(who);
  }

  /** The images still to answer, from the one after `id` on; the skipped ones at the end. */
  *open(id = null) {
    const busy = new Set([...this.#looking].filter(([who]) => who !== client).map(([, at]) => at));
    const skipped = new Set(this.#skipped);
    const start = id === null ? 0 : (this.#place.get(id) ?? -1) + 1;
    const wanted = (other) => other !== id && !this.#answered.has(other);
    const free = (other) => wanted(other) && !skipped.has(other) && !busy.has(other);
    const n = this.ids.length;
    for (let i = 0; i < n; i += 1) {
      const other = this.ids[(start + i) % n];
      if (free(other)) yield other;
    }
    for (const other of this.#skipped) if (wanted(other) && !busy.has(other)) yield other;
    for (const other of busy) if (wanted(other) && this.#place.has(other)) yield other;
  }

  first(count, id) {
    const found = [];
    for (const other of this.open(id)) {
      found.push(other);
      if (found.length >= count) break;
    }
    return found;
  }

  /** The neighbor in the whole queue, answered or not. */
  neighbor(id, step) {
    if (!this.ids.length) return null;
    const place = this.#place.get(id) ?? 0;
    return this.ids[(place + step + this.ids.length) % this.ids.length];
  }

  ahead(id) {
    return this.first(BATCH, id);
  }
}
