// The way from images to a finished dataset: which step is shown, and what each one shows.

import { button, byId, make, notify } from "./dom.js";
import { Refused, get, post } from "./server.js";
import { goalOf, guideViews } from "./steps.js";

const NAMES = {
  look: "Look",
  classes: "Classes",
  labels: "First labels",
  train: "Train",
  wish: "Wish",
  finish: "Finish",
  done: "Done",
  gallery: "Gallery",
};

export class Journey {
  #page;
  #step = null;
  #asked = null;
  #refreshes = 0;
  facts = null;
  exported = ""; // what the last export wrote
  isChoosing = false; // another wish than the one that is being checked

  constructor(page) {
    this.#page = page;
  }

  get step() {
    return this.#step;
  }

  async start() {
    byId("steps").hidden = false;
    this.facts = await get("journey");
    addEventListener("hashchange", () => this.show(location.hash.slice(1)));
    addEventListener("result", () => this.refresh());
    await this.show(location.hash.slice(1) || this.facts.current);
  }

  /** First labels that are enough to train; null where all images are to be labeled. */
  get goal() {
    return this.facts && !this.facts.by_hand ? this.facts.n_wanted : null;
  }

  /** Whether images are shown to be answered: first labels, checks for the wish, what is left. */
  get #labels() {
    if (this.#step === "labels" || this.#step === "finish") return "label";
    const { wish, is_certified: isCertified } = this.facts;
    const isChecking = wish?.n && !isCertified && !this.isChoosing;
    return this.#step === "wish" && isChecking ? "check" : null;
  }

  /** Show a step; one that is not open yet shows the step to continue with. */
  async show(wanted) {
    const { steps, current } = this.facts;
    const open = steps.some(({ name, is_open: isOpen }) => name === wanted && isOpen);
    const isGallery = wanted === "gallery" && this.facts.rounds > 0;
    this.#step = open || isGallery ? wanted : current;
    if (location.hash.slice(1) !== this.#step) history.replaceState(null, "", `#${this.#step}`);
    const asks = this.#labels;
    byId("label-view").hidden = !asks;
    byId("guide").hidden = Boolean(asks) || isGallery;
    byId("skip-link").href = isGallery ? "#gallery-view" : asks ? "#answer" : "#guide";
    document.body.dataset.view = isGallery ? "gallery" : asks ? "label" : "guide";
    this.#showSteps();
    this.#showGoal();
    this.#page.gallery.close();
    if (isGallery) {
      if (this.#page.state.blind) await this.#ask("label"); // a check hides the run's labels
      if (this.#step === "gallery") await this.#page.gallery.open();
    } else if (asks) await this.#ask(asks);
    else this.#showGuide(true);
  }

  /** Let the server ask about the images of this step. */
  async #ask(what) {
    if (this.#asked === what && this.#page.queue.total) {
      if (this.#page.current === null) await this.#page.openNext(null);
      return;
    }
    this.#page.clear();
    await this.#page.outbox.idle;
    const done = await this.send("ask", { what });
    if (!done) return;
    this.#asked = what;
    await this.#page.changeTask();
  }

  /** Fetch where the run stands and show it again. */
  async refresh() {
    if (!this.#step) return;
    const refresh = (this.#refreshes += 1);
    try {
      const facts = await get("journey");
      if (refresh === this.#refreshes) this.#set(facts);
    } catch {
      // The next change asks again.
    }
  }

  #set(facts) {
    const asked = this.#labels;
    this.facts = facts;
    if (asked !== this.#labels) {
      this.#asked = null;
      this.show(this.#step);
      return;
    }
    this.#showSteps();
    this.#showGoal();
    const isTyping = byId("guide").contains(document.activeElement) && document.activeElement.matches("input, textarea");
    if (!this.#labels && !isTyping && this.#step !== "gallery") this.#showGuide(false);
  }

  /** Change something and show what follows; false if the server refused. */
  async change(path, body) {
    const facts = await this.send(path, body);
    if (!facts) return false;
    this.facts = facts;
    return true;
  }

  async send(path, body) {
    try {
      return await post(path, body);
    } catch (error) {
      notify(error instanceof Refused ? error.message : "The server cannot be reached.");
      return null;
    }
  }

  async go(step) {
    this.facts = await get("journey");
    await this.show(step);
  }

  async train() {
    const status = await this.send("train");
    if (!status) return;
    this.facts.training = status;
    await this.show("train");
  }

  onTraining(status) {
    if (!this.facts) return;
    const wasRunning = this.facts.training.state === "running";
    this.facts.training = status;
    if (status.state === "running") {
      if (this.#step === "train") this.#showGuide(false);
    } else if (wasRunning) this.refresh();
  }

  onPreparing(status) {
    if (!this.facts) return;
    this.facts.preparing = status;
    if (status.state !== "running") this.refresh();
    else if (this.#step === "look" || this.#step === "train") this.#showGuide(false);
  }

  #showSteps() {
    const links = this.facts.steps.map(({ name, is_done: isDone, is_open: isOpen }) => {
      const isHere = name === this.#step;
      const mark = make("span", { className: "mark", textContent: isDone ? "✓" : "", "aria-hidden": "true" });
      const text = make("span", { textContent: NAMES[name] });
      const done = isDone ? [make("span", { className: "visually-hidden", textContent: " (done)" })] : [];
      const inner = isOpen
        ? make("a", { href: `#${name}` }, mark, text, ...done)
        : make("span", { className: "closed" }, mark, text, make("span", { className: "visually-hidden", textContent: " (later)" }));
      if (isHere) inner.setAttribute("aria-current", "step");
      return make("li", { className: isDone ? "is-done" : "" }, inner);
    });
    if (this.facts.rounds) {
      const gallery = make("a", { href: "#gallery", textContent: NAMES.gallery });
      if (this.#step === "gallery") gallery.setAttribute("aria-current", "page");
      links.push(make("li", { className: "apart" }, gallery));
    }
    byId("step-list").replaceChildren(...links);
  }

  #showGoal() {
    const goal = this.#labels ? goalOf(this.#step, this.facts) : null;
    byId("goal").hidden = !goal;
    if (!goal) return;
    const buttons = goal.buttons.map(({ text, isMain, isOff, run }) =>
      button(text, () => run(this), { className: isMain ? "main" : "quiet", disabled: Boolean(isOff) }),
    );
    const focused = [...byId("goal").querySelectorAll("button")].indexOf(document.activeElement);
    byId("goal").replaceChildren(make("p", { textContent: goal.text }), ...buttons);
    if (focused >= 0) byId("goal").querySelectorAll("button")[focused]?.focus();
  }

  #showGuide(isNew) {
    const guide = byId("guide");
    const focused = document.activeElement?.id;
    const opened = isNew ? [] : [...guide.querySelectorAll("details[open] > summary")].map((each) => each.textContent);
    guide.replaceChildren(...guideViews[this.#step](this.facts, this));
    for (const each of guide.querySelectorAll("details")) each.open = opened.includes(each.querySelector("summary").textContent);
    if (isNew) {
      guide.querySelector("h2")?.focus();
      scrollTo(0, 0);
    } else if (focused) byId(focused)?.focus();
  }
}
