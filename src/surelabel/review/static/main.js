// The review page: puts queue, images, answers and keys together.

import { Refused, client, get, post } from "./api.js";
import { Answers } from "./answers.js";
import { search, typeClass } from "./dialogs.js";
import { byId, notify, plural } from "./dom.js";
import { showFinished } from "./finished.js";
import { Grid } from "./grid.js";
import { Outbox } from "./outbox.js";
import { Pace } from "./pace.js";
import { inOrder, showClasses, showItem } from "./panel.js";
import { fit, picture, show } from "./pictures.js";
import { Queue } from "./queue.js";
import { showTraining } from "./training.js";
import { hear, wire } from "./wiring.js";

const PREFETCH = 8;
const LOOK_MS = 150;
const PAINTED_MS = 40; // what can wait begins when the image is there
const TASKS = { audit: ": audit", certify: ": certify", blind: ": blind check" };

class Page {
  queue = new Queue();
  pace = new Pace();
  outbox = new Outbox((box) => this.showConnection(box));
  grid = new Grid(this.queue);
  answers = new Answers(
    this.queue,
    this.outbox,
    () => this.reviewer,
    (ids) => this.refresh(ids),
    () => this.state.reveals,
    () => this.state.purpose,
  );
  state = null;
  current = null;
  #looking = 0;
  #counting = 0;

  get reviewer() {
    return byId("reviewer").value.trim();
  }

  async start() {
    this.state = await get("state");
    document.body.classList.toggle("blind", this.state.blind);
    byId("run").textContent = this.state.run + (TASKS[this.state.purpose] ?? "");
    byId("reviewer").value = localStorage.getItem("reviewer") ?? this.state.reviewer;
    const fixed = this.state.blind || this.state.first;
    byId("order-field").hidden = fixed;
    byId("toggle-grid").hidden = this.state.blind;
    byId("open-search").hidden = this.state.blind;
    byId("unsure").hidden = !this.state.blind;
    byId("unsure").parentElement.classList.toggle("four", this.state.blind);
    byId("train").hidden = !this.state.can_train;
    if (this.state.first) byId("train").textContent = "Start training";
    showTraining(this.state.training);
    fit(byId("frame"));
    wire(this);
    hear(this);
    await this.load();
  }

  async load() {
    if (!(await this.reload())) return;
    this.showClasses();
    await this.next(null);
  }

  /** Fetch the queue; false if a later call does it. */
  async reload() {
    await this.outbox.idle;
    return this.queue.load(byId("order").value, this.state.run);
  }

  // Moving through the images

  async next(from) {
    const [id] = this.queue.first(1, from);
    if (id === undefined) return this.finish();
    return this.open(id);
  }

  async open(id) {
    byId("finished").hidden = true;
    this.current = id;
    this.grid.wait();
    const known = this.queue.items.get(id);
    const revealing = this.state.reveals && known?.answer?.seq;
    if (!known || revealing) {
      byId("frame").dataset.state = "coming";
      await (revealing ? this.queue.renew(id) : this.queue.describe([id]));
    }
    if (this.current !== id) return;
    if (this.grid.isOpen) await this.showAlike(id);
    else byId("single").hidden = false;
    if (this.current !== id) return;
    this.showCurrent();
    setTimeout(() => this.prefetch(id), PAINTED_MS);
    clearTimeout(this.#looking);
    this.#looking = setTimeout(() => this.look(id), LOOK_MS);
  }

  look(id) {
    post("looking", { client, id }).catch(() => {});
  }

  prefetch(id) {
    const ahead = this.queue.ahead(id);
    this.queue.describe(ahead).catch(() => {});
    for (const each of [...ahead.slice(0, PREFETCH), this.queue.neighbor(id, 1)]) picture(each);
  }

  finish() {
    this.current = null;
    byId("single").hidden = true;
    this.closeGrid();
    byId("finished").hidden = false;
    showFinished(this.queue, this.state);
    byId("answer").hidden = true;
    this.showPace();
    byId("finished").querySelector("h2").focus();
    this.look(null);
  }

  // Answering

  ready() {
    const shown = this.grid.isOpen
      ? this.grid.isReady
      : byId("frame").dataset.state !== "coming";
    return this.current !== null && shown;
  }

  give(kind, label = null, newClass = false) {
    if (!this.ready()) return;
    const from = this.current;
    const ids = this.grid.isOpen ? this.grid.selected : [from];
    if (!ids.length) {
      notify("Select some images first.");
      return;
    }
    const items = ids.map((id) => this.queue.items.get(id));
    if (this.state.reveals && items.some((item) => item.answer)) {
      notify("The first answer stands. Only the last one can be taken back: u.");
      return;
    }
    this.commit(items.map((item) => ({ item, kind, label, newClass })));
  }

  accept() {
    if (!this.ready() || this.state.blind) return;
    const ids = this.grid.isOpen ? this.grid.selected : [this.current];
    const guessed = ids
      .map((id) => this.queue.items.get(id))
      .filter((item) => item.guesses?.length)
      .map((item) => ({ item, kind: "label", label: item.guesses[0].label }));
    if (guessed.length) this.commit(guessed);
    else notify("The run has no guess for it.");
  }

  commit(answers) {
    const from = this.current;
    const odd = this.grid.isOpen ? this.grid.unselected : [];
    for (const { label, newClass } of answers) if (newClass) this.addClass(label);
    this.grid.forget();
    this.answers.give(answers);
    this.pace.tick(answers.length);
    if (odd.length && answers.length) this.open(odd[0]);
    else this.next(from);
  }

  addClass(name) {
    if (this.state.classes.some((each) => each.name === name)) return;
    this.state.classes.push({ name, people: 0, run: 0 });
    this.showClasses();
  }

  skip() {
    if (this.current === null) return;
    const from = this.current;
    this.answers.skip(from);
    this.next(from);
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
    const names = this.state.classes.map((each) => each.name);
    const asked = this.current;
    typeClass(names, start, (name, isNew) => {
      if (this.current === asked) this.give("label", name, isNew);
      else notify("Another image has come meanwhile: nothing was labeled.");
    });
  }

  // Showing

  showCurrent() {
    const item = this.queue.items.get(this.current);
    if (!item) return;
    byId("answer").hidden = false;
    show(byId("frame"), item.id, `Image to label: ${item.path}`);
    byId("path").textContent = item.path;
    this.showPanel(item);
    this.showPace();
  }

  showPanel(item) {
    const onPick = (label) => this.give("label", label);
    showItem(item, this.state, this.reviewer, onPick);
  }

  showPace() {
    byId("done").max = Math.max(1, this.queue.total);
    byId("done").value = this.queue.done;
    byId("pace").textContent = this.pace.text(this.queue.done, this.queue.total);
  }

  showClasses() {
    showClasses(this.state.classes, (label) => this.give("label", label));
  }

  showConnection({ offline, size }) {
    document.body.dataset.waiting = size;
    byId("offline").hidden = !offline;
    byId("offline").textContent =
      `The server cannot be reached. ${plural(size, "answer")} not saved yet: ` +
      "leave this page open, it tries again. If the server was started anew, open its new link in " +
      "another tab.";
  }

  /** Answers to `ids` were stored, here or elsewhere: renew what is shown of them. */
  refresh(ids) {
    this.showPace();
    const item = this.queue.items.get(this.current);
    if (item && ids.includes(item.id) && !this.grid.isOpen) this.showPanel(item);
    clearTimeout(this.#counting);
    this.#counting = setTimeout(() => this.count(), 400);
  }

  async count() {
    const asked = this.#counting;
    try {
      const { classes } = await get("counts");
      if (asked !== this.#counting) return; // more was stored: it is counted again
      this.state.classes = this.known(classes);
      this.showClasses();
    } catch {
      // The next answer counts again.
    }
  }

  /** The server's `classes`, and those that it has yet to hear of; none changes its key. */
  known(classes) {
    const names = new Set(classes.map(({ name }) => name));
    const coming = this.outbox.size
      ? this.state.classes.filter(({ name }) => !names.has(name))
      : [];
    return inOrder(this.state.classes, [...classes, ...coming]);
  }

  // Grid

  async toggleGrid() {
    if (this.state.blind || this.current === null) return;
    if (this.grid.isOpen) {
      this.closeGrid();
      byId("single").hidden = false;
      this.showCurrent();
      return;
    }
    byId("single").hidden = true;
    byId("grid").hidden = false;
    byId("answer").classList.add("many");
    byId("toggle-grid").setAttribute("aria-pressed", "true");
    await this.showAlike(this.current);
  }

  /** Only images without an answer are shown, so those on their way have to arrive before. */
  async showAlike(id) {
    this.grid.wait();
    await this.outbox.idle;
    await this.grid.open(id);
  }

  closeGrid() {
    byId("grid").hidden = true;
    byId("answer").classList.remove("many");
    byId("toggle-grid").setAttribute("aria-pressed", "false");
  }

  move(step) {
    if (this.grid.isOpen || this.current === null) return;
    this.open(this.queue.neighbor(this.current, step));
  }

  findImage() {
    if (this.state.blind) return;
    search((item) => {
      if (this.grid.isOpen) this.toggleGrid();
      this.queue.items.set(item.id, item);
      this.open(item.id);
    });
  }

  /** A round ended: other images are left. */
  async renew() {
    const before = this.queue.total - this.queue.done;
    const state = await get("state");
    this.state = { ...state, classes: this.known(state.classes) };
    if (!(await this.reload())) return;
    const keep = this.current;
    this.showClasses();
    const left = this.queue.total - this.queue.done;
    if (left < before) notify(`${plural(before - left, "image")} fewer to look at.`);
    if (keep !== null && this.queue.has(keep)) await this.open(keep);
    else await this.next(null);
  }
}

const page = new Page();
page.start().catch((error) => {
  byId("pace").textContent = error instanceof Refused ? error.message : "The page cannot start.";
  throw error;
});
