// The review page: moves through the queue, takes answers, shows what is known.

import { Answers } from "./answers.js";
import { Attention } from "./attention.js";
import { byId, notify, plural } from "./dom.js";
import { Gallery } from "./gallery.js";
import { Grid, fitImagesTo, loadImage, searchImages, showImage } from "./images.js";
import { Journey } from "./journey.js";
import { bindKeys } from "./keys.js";
import { inKnownOrder, showClasses, showItem, typeClass } from "./panel.js";
import {
  Pace,
  bindTraining,
  showConnection,
  showFinished,
  showProgress,
  showTraining,
} from "./progress.js";
import { Queue } from "./queue.js";
import { Outbox, Refused, client, get, listenToEvents, post } from "./server.js";

const PREFETCH = 8;
const PREFETCH_AFTER_MS = 40; // the image shown now comes first
const VIEWING_AFTER_MS = 150;
const COUNT_AFTER_MS = 400;
const COUNT_LATEST_MS = 2000;
const TITLES = { audit: ": audit", certify: ": random check", blind: ": blind check" };

class Page {
  queue = new Queue();
  pace = new Pace();
  outbox = new Outbox(showConnection);
  grid = new Grid(this.queue);
  attention = new Attention(byId("frame"), byId("toggle-attention"));
  answers = new Answers(this.queue, this.outbox, this);
  journey = new Journey(this);
  gallery = new Gallery(this);
  state = null;
  current = null;
  #viewingTimer = 0;
  #countTimer = 0;
  #uncountedSince = null;

  get reviewer() {
    return byId("reviewer").value.trim();
  }

  async start() {
    this.state = await get("state");
    this.showTask();
    this.showCertify(this.state.certify);
    showTraining(this.state.training);
    fitImagesTo(byId("frame"));
    bindKeys(this);
    bindTraining();
    this.bindControls();
    this.listen();
    if (this.state.guided) await this.journey.start();
    else {
      addEventListener("hashchange", () => this.showView());
      await this.load();
      this.showView();
    }
  }

  /** Show the gallery if the address says so, the images to label otherwise. */
  showView() {
    const isGallery = location.hash === "#gallery" && this.state.can_browse;
    if (isGallery === this.gallery.isOpen) return;
    byId("label-view").hidden = isGallery;
    document.body.dataset.view = isGallery ? "gallery" : "label";
    byId("skip-link").href = isGallery ? "#gallery-view" : "#answer";
    if (isGallery) this.gallery.open();
    else {
      this.gallery.close();
      if (this.current !== null) this.showCurrent();
    }
  }

  /** Show no image: the one shown now must not be answered for another task. */
  clear() {
    this.current = null;
    byId("frame").replaceChildren();
    byId("frame").dataset.state = "coming";
    byId("path").textContent = "";
    byId("answer").hidden = true;
    byId("finished").hidden = true;
    byId("single").hidden = false;
  }

  /** The server asks about other images now. */
  async changeTask() {
    this.state = await get("state");
    this.showTask();
    this.showCertify(this.state.certify);
    if (this.grid.isOpen) this.grid.close();
    await this.load();
  }

  /** Show what this task needs and nothing else. */
  showTask() {
    const { run, purpose, blind, first, can_train: canTrain } = this.state;
    byId("run").textContent = run + (TITLES[purpose] ?? "");
    if (document.activeElement !== byId("reviewer")) {
      byId("reviewer").value = localStorage.getItem("reviewer") ?? this.state.reviewer;
    }
    byId("order-field").hidden = blind || first;
    byId("toggle-grid").hidden = blind;
    byId("toggle-attention").hidden = !this.state.attention;
    byId("open-search").hidden = blind;
    byId("unsure").hidden = !blind;
    byId("unsure").parentElement.classList.toggle("four", blind);
    byId("open-gallery").hidden = !this.state.can_browse || this.state.guided;
    byId("close-gallery").hidden = this.state.guided;
    byId("train").hidden = !canTrain || this.state.guided;
    byId("train").textContent = first ? "Start training" : "Continue training";
  }

  bindControls() {
    byId("order").onchange = () => this.load();
    byId("reviewer").onchange = () => localStorage.setItem("reviewer", this.reviewer);
    byId("open-gallery").onclick = () => (location.hash = "gallery");
    byId("close-gallery").onclick = () => (location.hash = "");
    byId("finished-next").onclick = () => this.journey.go(this.state.first ? "train" : "done");
    byId("finished-skipped").onclick = () => this.openNext(null);
    byId("menu").onclick = () => {
      const isOpen = byId("tools").classList.toggle("open");
      byId("menu").setAttribute("aria-expanded", isOpen);
    };
  }

  listen() {
    const onAnswers = (event) => {
      if (event.client === client) return;
      this.answers.receive(event.answers);
      this.refresh(event.answers.map(({ id }) => id));
    };
    const onViewing = (event) => this.queue.setViewing(event.client, event.id);
    const onQueue = () => this.onRoundEnd();
    const onTraining = (status) => {
      showTraining(status);
      this.journey.onTraining(status);
    };
    const onPreparing = (status) => this.journey.onPreparing(status);
    const handlers = {
      answers: onAnswers,
      viewing: onViewing,
      training: onTraining,
      preparing: onPreparing,
      map: (status) => this.gallery.onMap(status),
      queue: onQueue,
    };
    listenToEvents(handlers, async () => {
      await this.onRoundEnd(); // events may have been missed while the connection was lost
      showTraining(this.state.training);
    });
  }

  async load() {
    if (!(await this.loadQueue())) return;
    this.showClasses();
    await this.openNext(null);
  }

  /** Fetch the queue; false if a later call made this one obsolete. */
  async loadQueue() {
    await this.outbox.idle;
    return this.queue.load(byId("order").value, this.state.run, () => this.current);
  }

  /** A round ended: other images are left. */
  async onRoundEnd() {
    const before = this.queue.total - this.queue.done;
    const state = await get("state");
    this.state = { ...state, classes: this.mergeClasses(state.classes) };
    this.showTask();
    this.journey.refresh();
    if (!(await this.loadQueue())) return;
    this.gallery.refresh();
    const shown = this.current;
    this.showClasses();
    const left = this.queue.total - this.queue.done;
    if (left < before && !this.state.guided) notify(`${plural(before - left, "more image")} labeled.`);
    if (shown === null || !this.queue.has(shown)) await this.openNext(null);
    else if (this.grid.isOpen) await this.open(shown);
    else {
      await this.queue.refetchItem(shown); // it can be answered meanwhile
      if (this.current === shown) this.showCurrent();
    }
  }

  // Moving through the images

  /** Open the image to answer after `id`. */
  async openNext(id) {
    if (this.state.certify?.is_over) return this.finish();
    const next = this.queue.next(id);
    return next === undefined ? this.finish() : this.open(next);
  }

  async open(id) {
    byId("finished").hidden = true;
    this.current = id;
    this.grid.wait();
    await this.fetchItem(id);
    if (this.current !== id) return;
    if (this.grid.isOpen) await this.showSimilar(id);
    else byId("single").hidden = false;
    if (this.current !== id) return;
    this.showCurrent();
    setTimeout(() => this.prefetch(id), PREFETCH_AFTER_MS);
    clearTimeout(this.#viewingTimer);
    this.#viewingTimer = setTimeout(() => this.sendViewing(id), VIEWING_AFTER_MS);
  }

  /** Fetch what is known of `id`; again after an answer that reveals the run's label. */
  async fetchItem(id) {
    const known = this.queue.items.get(id);
    const isRevealed = this.state.reveals && known?.answer?.seq;
    if (known && !isRevealed) return;
    byId("frame").dataset.state = "coming";
    await (isRevealed ? this.queue.refetchItem(id) : this.queue.fetchItems([id]));
  }

  prefetch(id) {
    const upcoming = this.queue.upcoming(id);
    this.queue.fetchItems(upcoming).catch(() => {});
    for (const each of [...upcoming.slice(0, PREFETCH), this.queue.neighbor(id, 1)]) loadImage(each);
  }

  sendViewing(id) {
    post("viewing", { client, id }).catch(() => {});
  }

  move(step) {
    if (this.grid.isOpen || this.current === null) return;
    this.open(this.queue.neighbor(this.current, step));
  }

  search() {
    if (this.state.blind) return;
    searchImages((item) => {
      if (this.grid.isOpen) this.toggleGrid();
      this.queue.items.set(item.id, item);
      this.open(item.id);
    });
  }

  finish() {
    this.current = null;
    byId("single").hidden = true;
    this.grid.close();
    byId("finished").hidden = false;
    showFinished(this.queue, this.state, this.outbox);
    byId("answer").hidden = true;
    this.showProgress();
    byId("finished").querySelector("h2").focus();
    this.sendViewing(null);
  }

  // The grid of similar images

  async toggleGrid() {
    if (this.state.blind || this.current === null) return;
    byId("single").hidden = !this.grid.isOpen;
    if (this.grid.isOpen) {
      this.grid.close();
      this.showCurrent();
    } else {
      this.grid.open();
      await this.showSimilar(this.current);
    }
  }

  /** Only images without an answer are shown, so answers on their way have to arrive first. */
  async showSimilar(id) {
    this.grid.wait();
    await this.outbox.idle;
    await this.grid.show(id);
  }

  // Answering

  /** Whether the reviewer can see what they are about to answer. */
  get isReady() {
    const isShown = this.grid.isOpen ? this.grid.isReady : byId("frame").dataset.state === "ready";
    return this.current !== null && isShown;
  }

  /** Whether `kind` can be answered now: of an image that cannot be shown, only that it is unclear. */
  canAnswer(kind) {
    const isLost = !this.grid.isOpen && byId("frame").dataset.state === "lost";
    if (isLost && this.current !== null && kind === "unsure") return true;
    if (isLost) notify("This image cannot be shown, so it cannot be labeled: skip it.");
    return this.isReady;
  }

  /** The images that an answer is for. */
  get chosen() {
    const ids = this.grid.isOpen ? this.grid.selected : [this.current];
    return ids.map((id) => this.queue.items.get(id));
  }

  answer(kind, label = null, newClass = false) {
    if (!this.canAnswer(kind)) return;
    const items = this.chosen;
    if (!items.length) notify("Select some images first.");
    else if (this.state.reveals && items.some((item) => item.answer)) {
      notify("The first answer stands. Only your last one can be undone: u.");
    } else this.submit(items.map((item) => ({ item, kind, label, newClass })));
  }

  accept() {
    if (this.state.blind || !this.canAnswer("label")) return;
    const answers = this.chosen
      .filter((item) => item.guesses?.length)
      .map((item) => ({ item, kind: "label", label: item.guesses[0].label }));
    if (answers.length) this.submit(answers);
    else notify("The run has no guess for this image.");
  }

  submit(answers) {
    const from = this.current;
    const [deselected] = this.grid.isOpen ? this.grid.deselected : [];
    for (const { label, newClass } of answers) if (newClass) this.addClass(label);
    this.grid.forget();
    this.answers.give(answers);
    this.pace.add(answers.length);
    if (deselected) this.open(deselected);
    else this.openNext(from);
  }

  skip() {
    if (this.current === null) return;
    const from = this.current;
    this.answers.skip(from);
    this.openNext(from);
  }

  async undo() {
    try {
      const id = await this.answers.undo();
      if (id) await this.open(id);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      notify(error.message);
    }
  }

  typeClass(start = "") {
    if (this.current === null) return;
    const names = this.state.classes.map(({ name }) => name);
    const shown = this.current;
    typeClass(names, start, (name, isNew) => {
      if (this.current === shown) this.answer("label", name, isNew);
      else notify("Another image came up meanwhile: nothing was labeled.");
    });
  }

  addClass(name) {
    if (this.state.classes.some((each) => each.name === name)) return;
    this.state.classes.push({ name, people: 0, run: 0 });
    this.showClasses();
  }

  // Showing

  showProgress() {
    showProgress(this.queue, this.pace, this.state.first ? this.journey.goal : null);
  }

  showCurrent() {
    const item = this.queue.items.get(this.current);
    if (!item) return;
    byId("answer").hidden = false;
    showImage(byId("frame"), item.id, `Image to label: ${item.path}`);
    this.attention.show(item.id);
    byId("path").textContent = item.path;
    this.showPanel(item);
    this.showProgress();
  }

  showPanel(item) {
    showItem(item, this.state, this.reviewer, (label) => this.answer("label", label));
  }

  /** What the certify answers show; once they can show no more, nobody is asked further. */
  showCertify(certify) {
    const wasOver = this.state.certify?.is_over;
    this.state.certify = certify;
    byId("certify").hidden = !certify;
    byId("certify").textContent = certify?.text ?? "";
    if (certify && !byId("finished").hidden) byId("finished-text").textContent = certify.text;
    if (certify?.is_over && !wasOver && this.current !== null) this.finish();
  }

  showClasses() {
    showClasses(this.state.classes, (label) => this.answer("label", label));
  }

  /** Answers to `ids` were stored, here or elsewhere: show them. */
  refresh(ids) {
    this.showProgress();
    this.gallery.onStored(ids);
    const item = this.queue.items.get(this.current);
    if (item && ids.includes(item.id) && !this.grid.isOpen) this.showPanel(item);
    clearTimeout(this.#countTimer);
    this.#uncountedSince ??= performance.now();
    const isLate = performance.now() - this.#uncountedSince > COUNT_LATEST_MS; // somebody is fast
    this.#countTimer = setTimeout(() => this.updateCounts(), isLate ? 0 : COUNT_AFTER_MS);
  }

  async updateCounts() {
    const timer = this.#countTimer;
    this.#uncountedSince = null;
    try {
      const { classes, certify } = await get("counts");
      this.showCertify(certify);
      if (timer !== this.#countTimer) return; // more was stored: it is counted again
      this.state.classes = this.mergeClasses(classes);
      this.showClasses();
      this.journey.refresh();
    } catch {
      // The next answer counts again.
    }
  }

  /** The server's `classes` and new ones still on their way to it; none changes its key. */
  mergeClasses(classes) {
    const names = new Set(classes.map(({ name }) => name));
    const sent = this.outbox.size ? this.state.classes.filter(({ name }) => !names.has(name)) : [];
    return inKnownOrder(this.state.classes, [...classes, ...sent]);
  }
}

const page = new Page();
page.start().catch((error) => {
  byId("pace").textContent = error instanceof Refused ? error.message : "The page cannot start.";
  throw error;
});
