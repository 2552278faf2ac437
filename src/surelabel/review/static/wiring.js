// Which click, key or news from the server calls which part of the page.

import { client } from "./api.js";
import { help } from "./dialogs.js";
import { byId } from "./dom.js";
import { listen } from "./keys.js";
import { showTraining, wireTraining } from "./training.js";

export function wire(page) {
  const clicks = {
    back: () => page.move(-1),
    forth: () => page.move(1),
    accept: () => page.accept(),
    skip: () => page.skip(),
    none: () => page.give("none"),
    unsure: () => page.give("unsure"),
    undo: () => page.undo(),
    "open-type": () => page.typeClass(),
    "open-search": () => page.findImage(),
    "open-help": help,
    "toggle-grid": () => page.toggleGrid(),
    "grid-accept": () => page.accept(),
    "finished-skipped": () => page.next(null),
    menu: () => {
      const open = byId("tools").classList.toggle("open");
      byId("menu").setAttribute("aria-expanded", open);
    },
  };
  for (const [id, work] of Object.entries(clicks)) byId(id).onclick = work;
  wireTraining();
  byId("order").onchange = () => page.load();
  byId("reviewer").onchange = () => localStorage.setItem("reviewer", page.reviewer);
  listen({
    commands: {
      " ": () => (page.grid.isOpen ? false : page.accept()),
      Enter: () => (page.grid.isOpen ? page.accept() : false),
      ArrowLeft: clicks.back,
      ArrowRight: clicks.forth,
      u: clicks.undo,
      s: clicks.skip,
      x: clicks.none,
      q: () => (page.state.blind ? page.give("unsure") : false),
      t: clicks["open-type"],
      g: clicks["toggle-grid"],
      "/": clicks["open-search"],
      "?": help,
      Escape: () => (page.grid.isOpen ? page.toggleGrid() : false),
    },
    classNames: () => page.state.classes.map(({ name }) => name),
    pick: (name) => page.give("label", name),
    type: (letter) => page.typeClass(letter),
  });
}

export function hear(page) {
  const events = new EventSource("/api/events");
  const on = (name, work) => events.addEventListener(name, (e) => work(JSON.parse(e.data)));
  on("answers", (news) => {
    if (news.client === client) return;
    page.answers.hear(news.answers);
    page.refresh(news.answers.map(({ id }) => id));
  });
  let met = false;
  on("hello", async () => {
    if (met) {
      await page.renew(); // the connection was lost for a while, and with it some news
      showTraining(page.state.training);
    }
    met = true;
  });
  on("looking", (news) => page.queue.look(news.client, news.id));
  on("training", showTraining);
  on("queue", () => page.renew());
}
