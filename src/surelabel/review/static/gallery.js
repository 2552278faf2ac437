// The gallery: every image of the run, filtered, a page at a time; labels can be changed, many at
// once. An image that has not been painted is never selected, so it is never answered.

import { answerText } from "./answers.js";
import { button, byId, formatNumber, make, notify, plural } from "./dom.js";
import { tileUrl } from "./images.js";
import { keysOfClasses } from "./keys.js";
import { ImageMap } from "./map.js";
import { typeClass } from "./panel.js";
import { Refused, get, post } from "./server.js";

const PAGE = 60;
const PREFETCH = 24;
const TYPING_MS = 200;
const MOST_BUTTONS = 10;
const NO_FILTER = { label: null, source: null, reason: "", round: null, least: 0, most: 1, text: "", within: "", like: "" };
const SOURCES = { pseudo: "by the run", given: "by a person", reviewed: "by a person, on this page", copied: "copy of a labeled image", "": "no label" };
const REASONS = {
  unfamiliar: "unlike what was learned",
  ambiguous: "ambiguous",
  borderline: "not quite sure enough",
  outlier: "like none of the classes",
  suspicious: "label that looks wrong",
  disputed: "people disagree",
  "not scored": "added since the last training",
};
const BANDS = [[0, 1], [0, 0.5], [0.5, 0.8], [0.8, 0.95], [0.95, 0.99], [0.99, 1]];
const percent = (share) => (share > 0.99 && share < 1 ? `${Math.min(99.9, 100 * share).toFixed(1)} %` : `${Math.round(100 * share)} %`);

export class Gallery {
  #page;
  #filter = { ...NO_FILTER };
  #sorting = "errors";
  #offset = 0;
  #total = 0;
  #version = null;
  #items = [];
  #selected = new Set();
  #painted = new Set();
  #anchor = null; // the tile that a range begins at
  #loads = 0;
  #timer = 0;
  #counts = null;
  #map;

  constructor(page) {
    this.#page = page;
    this.#map = new ImageMap((corners) => this.#showSelection(corners));
    byId("show-images").onclick = () => this.#showMap(false);
    byId("show-map").onclick = () => this.#showMap(true);
    byId("sorting").onchange = (event) => {
      this.#sorting = event.target.value;
      this.#filter.like = "";
      this.#restart();
    };
    byId("filter-text").oninput = (event) => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#set({ text: event.target.value.trim() }), TYPING_MS);
    };
    const hasRoom = matchMedia("(min-width: 700px) and (min-height: 500px)"); // as in style.css
    const showFilters = () => (byId("filters").open = hasRoom.matches);
    hasRoom.addEventListener("change", showFilters);
    showFilters();
    byId("gallery-filters").onsubmit = (event) => event.preventDefault();
    byId("clear-filters").onclick = () => this.#clear();
    byId("gallery-all").onclick = () => this.#select(this.#items.map(({ id }) => id));
    byId("gallery-nothing").onclick = () => this.#select([]);
    byId("page-previous").onclick = () => this.#turn(-1);
    byId("page-next").onclick = () => this.#turn(1);
    byId("page-number").onchange = (event) => this.#turnTo(Number(event.target.value) - 1);
    byId("gallery-type").onclick = () => this.#type();
    byId("gallery-accept").onclick = () => this.#accept();
    byId("gallery-none").onclick = () => this.#answer("none");
    byId("gallery-undo").onclick = () => this.#undo();
    byId("gallery-like").onclick = () => this.#showSimilar();
    byId("gallery-same").onclick = () => this.#labelLikeFirst();
    byId("gallery-enlarge").onclick = () => this.#enlarge();
    byId("gallery-tiles").addEventListener("keydown", (event) => this.#moveFocus(event));
    for (const name of ["label", "source", "reason", "round", "band"]) {
      byId(`filter-${name}`).onchange = (event) => this.#onSelect(name, event.target.value);
    }
  }

  get isOpen() {
    return !byId("gallery-view").hidden;
  }

  /** Show the gallery as it was left; the map is drawn in the background. */
  async open() {
    byId("gallery-view").hidden = false;
    byId("gallery-view").querySelector("h2").focus();
    await Promise.all([this.#loadCounts(), this.#load()]);
    this.#ask(() => post("map").then((status) => this.onMap(status)));
  }

  close() {
    byId("gallery-view").hidden = true;
    this.#loads += 1;
  }

  /** A round ended, or somebody else answered: show what is known now. */
  async refresh() {
    if (!this.isOpen) return;
    this.#version = null;
    await Promise.all([this.#loadCounts(), this.#load()]);
  }

  /** Answers to `ids` are on disk. */
  onStored(ids) {
    if (!this.isOpen) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#loadCounts(), 2 * TYPING_MS);
    if (this.#items.some(({ id }) => ids.includes(id))) this.#reload();
  }

  async onMap(status) {
    if (!this.isOpen) return;
    this.#map.showStatus(status);
    if (status.state === "finished") {
      await this.#loadCounts();
      await this.#map.load(true);
    }
  }

  /** A key was pressed while the gallery is shown. */
  onKey(key) {
    if (key === "u") this.#undo();
    else if (key === "x") this.#answer("none");
    else if (key === "t") this.#type();
    else if (key === "Escape" && this.#selected.size) this.#select([]);
    else if (key === "PageDown") this.#turn(1);
    else if (key === "PageUp") this.#turn(-1);
    else {
      const names = this.#names;
      const place = keysOfClasses(names).indexOf(key);
      if (place < 0) return false;
      this.#answer("label", names[place]);
    }
    return true;
  }

  get #names() {
    return this.#page.state.classes.map(({ name }) => name);
  }

  async #ask(request) {
    try {
      return await request();
    } catch (error) {
      if (this.isOpen) notify(error instanceof Refused ? error.message : "The server cannot be reached.");
      return null;
    }
  }

  // The list

  #query() {
    const { least, most, ...rest } = this.#filter;
    const query = { sorting: this.#sorting, offset: this.#offset, n: PAGE };
    for (const [name, value] of Object.entries(rest)) if (value !== null && (value !== "" || name === "label" || name === "source")) query[name] = value;
    if (least > 0) query.least = least;
    if (most < 1) query.most = most;
    if (this.#version !== null) query.version = this.#version;
    return query;
  }

  #set(changes) {
    Object.assign(this.#filter, changes);
    return this.#restart();
  }

  #clear() {
    this.#filter = { ...NO_FILTER };
    byId("filter-text").value = "";
    this.#map.clear();
    this.#showFilters();
    return this.#restart();
  }

  #restart() {
    this.#offset = 0;
    this.#version = null;
    return this.#load();
  }

  #turn(step) {
    this.#turnTo(Math.floor(this.#offset / PAGE) + step);
  }

  #turnTo(number) {
    const last = Math.max(0, Math.ceil(this.#total / PAGE) - 1);
    const page = Math.min(last, Math.max(0, Math.floor(number) || 0));
    byId("page-number").value = page + 1;
    if (page * PAGE === this.#offset) return;
    this.#offset = page * PAGE;
    this.#load();
    byId("gallery-images").scrollIntoView({ block: "start" });
  }

  async #load() {
    const load = (this.#loads += 1);
    const found = await this.#ask(() => get("gallery", this.#query()));
    if (!found || load !== this.#loads) return;
    this.#take(found);
    this.#selected.clear();
    this.#painted.clear();
    this.#anchor = null;
    const tiles = this.#items.map((item, place) => this.#tile(item, place));
    byId("gallery-tiles").replaceChildren(...tiles);
    this.#showState();
    await Promise.all(tiles.map((tile, place) => this.#paint(tile, this.#items[place].id)));
    if (load === this.#loads) this.#prefetch(load);
  }

  /** What is known of the images on this page, again; what is selected stays selected. */
  async #reload() {
    await this.#page.outbox.idle;
    const load = this.#loads;
    const found = await this.#ask(() => get("gallery", this.#query()));
    if (!found || load !== this.#loads || found.items.length !== this.#items.length) return;
    this.#take(found);
    this.#items.forEach((item, place) => this.#caption(byId("gallery-tiles").children[place], item));
    this.#showState();
  }

  #take({ total, version, items }) {
    this.#total = total;
    this.#version = version;
    this.#items = items;
    for (const item of items) this.#page.queue.items.set(item.id, item);
  }

  /** Fetch the next page's first images while this one is looked at. */
  async #prefetch(load) {
    if (this.#offset + PAGE >= this.#total) return;
    try {
      const next = await get("gallery", { ...this.#query(), offset: this.#offset + PAGE, n: PREFETCH });
      if (load === this.#loads) for (const { id } of next.items) new Image().src = tileUrl(id);
    } catch {
      // The page itself will say so.
    }
  }

  // Tiles

  #tile(item, place) {
    const image = make("img", { src: tileUrl(item.id), alt: "" });
    const tile = make(
      "button",
      {
        type: "button",
        className: "tile",
        tabIndex: place ? -1 : 0,
        "aria-pressed": "false",
        onclick: (event) => this.#toggle(item.id, event.shiftKey),
        ondblclick: () => this.#enlarge(item.id),
      },
      image,
      make("span", { className: "name" }),
      make("span", { className: "from" }),
      make("span", { className: "tick", textContent: "✓", "aria-hidden": "true" }),
    );
    this.#caption(tile, item);
    return tile;
  }

  #caption(tile, item) {
    const { label, from } = describe(item);
    tile.querySelector(".name").textContent = label || "no label";
    tile.querySelector(".name").classList.toggle("open", !label);
    tile.querySelector(".from").textContent = from;
    tile.setAttribute("aria-label", `${item.path}: ${label || "no label"}, ${from}`);
    tile.title = item.path;
  }

  async #paint(tile, id) {
    const image = tile.querySelector("img");
    try {
      await image.decode();
      image.classList.toggle("tiny", image.naturalWidth < 120);
      this.#painted.add(id);
    } catch {
      tile.disabled = true;
      image.replaceWith(make("span", { className: "lost", textContent: "This image cannot be shown." }));
    }
  }

  #toggle(id, isRange) {
    const ids = this.#items.map((item) => item.id);
    const chosen = new Set(this.#selected);
    if (isRange && this.#anchor !== null) {
      const [from, to] = [ids.indexOf(this.#anchor), ids.indexOf(id)].sort((a, b) => a - b);
      for (const each of ids.slice(from, to + 1)) chosen.add(each);
    } else {
      if (!chosen.delete(id)) chosen.add(id);
      this.#anchor = id;
    }
    this.#select(chosen);
  }

  #select(ids) {
    const wanted = [...ids].filter((id) => this.#painted.has(id));
    const kept = new Set(this.#items.filter((item) => item.is_kept).map(({ id }) => id));
    if (wanted.some((id) => kept.has(id))) {
      notify("Images of a random check keep their label: it is evidence for the promise.");
    }
    this.#selected = new Set(wanted.filter((id) => !kept.has(id)));
    this.#showState();
  }

  #moveFocus(event) {
    const tiles = [...byId("gallery-tiles").children];
    const place = tiles.indexOf(document.activeElement);
    if (place < 0) return;
    const columns = Math.max(1, tiles.filter((tile) => tile.offsetTop === tiles[0].offsetTop).length);
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    const next = tiles[place + step];
    if (!step || !next) return;
    event.preventDefault();
    tiles[place].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }

  #enlarge(id = [...this.#selected][0]) {
    const item = this.#items.find((each) => each.id === id);
    if (!item) return;
    const { label, from } = describe(item);
    const [guess] = item.guesses;
    const lines = [item.path, `${label || "No label"}: ${from}`];
    if (guess) lines.push(`The run’s guess: ${guess.label}, ${percent(guess.probability)}`);
    if (item.reason) lines.push(`Why it is here: ${REASONS[item.reason] ?? item.reason}`);
    byId("enlarged-image").src = `/image/${item.id}?side=1024`;
    byId("enlarged-image").alt = item.path;
    byId("enlarged-text").replaceChildren(...lines.map((text) => make("li", { textContent: text })));
    byId("enlarged").showModal();
  }

  // Answers

  get #chosen() {
    return this.#items.filter(({ id }) => this.#selected.has(id));
  }

  #answer(kind, label = null, newClass = false) {
    this.#give(this.#chosen.map((item) => ({ item, kind, label, newClass })));
  }

  #accept() {
    const guessed = this.#chosen.filter((item) => item.guesses.length);
    this.#give(guessed.map((item) => ({ item, kind: "label", label: item.guesses[0].label })));
  }

  #give(answers) {
    if (!answers.length) {
      notify("Select some images first.");
      return;
    }
    for (const { label, newClass } of answers) if (newClass) this.#page.addClass(label);
    for (const { item } of answers) this.#page.queue.items.set(item.id, item);
    this.#page.answers.give(answers);
    for (const { item } of answers) {
      this.#caption(byId("gallery-tiles").children[this.#items.indexOf(item)], item);
    }
    notify(`${plural(answers.length, "label")} changed. Undo with u.`);
    this.#select([]);
  }

  async #undo() {
    const undone = await this.#ask(() => this.#page.answers.undo());
    if (undone) await this.#reload();
  }

  #type() {
    if (!this.#selected.size) notify("Select some images first.");
    else typeClass(this.#names, "", (name, isNew) => this.#answer("label", name, isNew));
  }

  #labelLikeFirst() {
    const label = this.#reference;
    const rest = this.#chosen.filter(({ id }) => id !== this.#filter.like);
    this.#give(rest.map((item) => ({ item, kind: "label", label })));
  }

  /** The label of the image that the others are compared with; empty if it has no class. */
  get #reference() {
    const item = this.#items.find(({ id }) => id === this.#filter.like);
    const label = item ? describe(item).label : "";
    return this.#names.includes(label) ? label : "";
  }

  #showSimilar() {
    const [id] = this.#selected;
    this.#filter = { ...NO_FILTER, like: id };
    byId("filter-text").value = "";
    this.#showFilters();
    this.#restart();
  }

  // What is shown around the tiles

  #showState() {
    const tiles = byId("gallery-tiles").children;
    this.#items.forEach(({ id }, place) => tiles[place].setAttribute("aria-pressed", this.#selected.has(id)));
    const first = this.#total ? this.#offset + 1 : 0;
    const last = Math.min(this.#offset + PAGE, this.#total);
    byId("gallery-text").textContent = this.#total
      ? `${plural(this.#total, "image")}; ${formatNumber(first)} to ${formatNumber(last)} shown`
      : "No image fits these filters.";
    const pages = Math.max(1, Math.ceil(this.#total / PAGE));
    byId("page-number").value = Math.floor(this.#offset / PAGE) + 1;
    byId("page-number").max = pages;
    byId("page-count").textContent = `of ${formatNumber(pages)}`;
    byId("page-previous").disabled = !this.#offset;
    byId("page-next").disabled = last >= this.#total;
    byId("pager").hidden = this.#total <= PAGE;
    this.#showBar();
    this.#showChips();
  }

  #showBar() {
    const n = this.#selected.size;
    byId("gallery-bar").classList.toggle("idle", !n);
    byId("gallery-selected").textContent = n ? `${formatNumber(n)} selected` : "Select images to label them, to enlarge one, or to find similar ones";
    for (const id of ["gallery-type", "gallery-accept", "gallery-none"]) byId(id).disabled = !n;
    byId("gallery-like").disabled = n !== 1 || !this.#counts?.can_compare;
    byId("gallery-enlarge").disabled = n !== 1;
    const like = this.#filter.like && this.#reference;
    byId("gallery-same").hidden = !like;
    byId("gallery-same").disabled = !n;
    byId("gallery-same").textContent = like ? `Label ${like}, like the first` : "";
    const names = this.#names;
    const keys = keysOfClasses(names);
    const shown = names.slice(0, MOST_BUTTONS).map((name, place) =>
      make(
        "button",
        { type: "button", className: "quiet", disabled: !n, onclick: () => this.#answer("label", name) },
        `${name} `,
        make("kbd", { textContent: keys[place] }),
      ),
    );
    byId("gallery-classes").replaceChildren(...shown);
  }

  #showChips() {
    const chips = [];
    const chip = (text, changes) => chips.push(button(`${text} ✕`, () => this.#set(changes), { "aria-label": `Remove: ${text}` }));
    if (this.#filter.within) chip("Selected on the map", { within: "" });
    if (this.#filter.like) chip("Most similar to the first image", { like: "" });
    byId("chips").replaceChildren(...chips);
  }

  // Filters

  async #loadCounts() {
    const counts = await this.#ask(() => get("gallery/counts"));
    if (!counts) return;
    this.#counts = counts;
    this.#showFilters();
    this.#showBar();
    this.#showAgreement();
  }

  #showFilters() {
    if (!this.#counts) return;
    const { label, source, reason, round } = this.#counts;
    const { least, most } = this.#filter;
    const named = label.filter(([name]) => name).sort(([a], [b]) => a.localeCompare(b));
    const none = label.filter(([name]) => !name);
    fill("label", "All labels", [...named, ...none], (name) => name || "no label", this.#filter.label);
    fill("source", "All sources", source, (name) => SOURCES[name] ?? name, this.#filter.source);
    fill("reason", "All reasons", reason, (name) => REASONS[name] ?? name, this.#filter.reason || null);
    fill("round", "All rounds", round, (number) => `round ${number}`, this.#filter.round);
    byId("filter-band").value = BANDS.findIndex(([low, high]) => low === least && high === most);
    byId("sorting").value = this.#sorting;
  }

  #onSelect(name, text) {
    const value = text === "all" ? null : text.slice(1);
    if (name === "band") {
      const [least, most] = BANDS[Number(text)];
      this.#set({ least, most });
    } else if (name === "round") this.#set({ round: value === null ? null : Number(value) });
    else this.#set({ [name]: name === "reason" ? (value ?? "") : value });
  }

  #showAgreement() {
    const { agreement, agreement_by_class: rows } = this.#counts;
    byId("agreement").hidden = !agreement.length;
    const cells = (tag, texts) => make("tr", {}, ...texts.map((text) => make(tag, { textContent: text })));
    const head = make("thead", {}, cells("th", ["Class", "Labels", "Alpha"]));
    const body = make("tbody", {}, ...rows.map((row) => cells("td", row)));
    byId("agreement-text").replaceChildren(
      ...agreement.map((text) => make("p", { textContent: text })),
      make("table", {}, head, body),
    );
  }

  // The map

  async #showMap(isMap) {
    byId("show-map").setAttribute("aria-pressed", isMap);
    byId("show-images").setAttribute("aria-pressed", !isMap);
    byId("gallery-map").hidden = !isMap;
    byId("gallery-text").hidden = isMap;
    byId("gallery-images").hidden = isMap;
    byId("gallery-bar").hidden = isMap;
    if (isMap) {
      const status = await this.#ask(() => get("map"));
      if (!status) return;
      this.#map.showStatus(status);
      if (status.has_map) await this.#map.load();
    }
  }

  #showSelection(corners) {
    this.#filter = { ...NO_FILTER, within: corners };
    byId("filter-text").value = "";
    this.#showFilters();
    this.#showMap(false);
    this.#restart();
  }
}

function fill(name, all, counts, text, chosen) {
  const option = (value, shown) => make("option", { value, textContent: shown });
  const options = counts.map(([value, n]) => option(`=${value}`, `${text(value)} (${formatNumber(n)})`));
  if (chosen !== null && !counts.some(([value]) => String(value) === String(chosen))) {
    options.push(option(`=${chosen}`, `${text(chosen)} (0)`));
  }
  byId(`filter-${name}`).replaceChildren(option("all", all), ...options);
  byId(`filter-${name}`).value = chosen === null ? "all" : `=${chosen}`;
}

/** The label of an image now, and where it comes from. */
function describe({ answer, label, source, guesses, is_kept: isKept }) {
  if (answer) return { label: answerText(answer), from: answer.reviewer ? `by ${answer.reviewer}` : SOURCES.reviewed };
  if (isKept) return { label, from: label ? "checked at random" : "kept for a check" };
  const [guess] = guesses;
  const sure = guess ? percent(guess.probability) : "";
  if (source === "pseudo") return { label, from: `run, ${sure}` };
  if (label) return { label, from: SOURCES[source] ?? source };
  return { label, from: guess ? `guess: ${guess.label}, ${sure}` : "no guess" };
}
