// The page's keys, all of them: which command or class a key stands for, and what it does.

import { byId, make } from "./dom.js";

const isGrid = (page) => page.grid.isOpen;
const isSingle = (page) => !page.grid.isOpen;
const isBlind = (page) => page.state.blind;
const isNotBlind = (page) => !page.state.blind;
const looks = (page) => page.state.attention;

/**
 * Each command has a key and mostly a button that does the same. `when` limits the key to some
 * states of the page. `help` is its text in the help dialog of the pages that `helpWhen` allows.
 */
const COMMANDS = [
  {
    key: " ",
    button: "accept",
    when: isSingle,
    run: (page) => page.accept(),
    help: "accept the run’s guess; in the grid, select or deselect an image",
    helpWhen: isNotBlind,
  },
  {
    key: "Enter",
    button: "grid-accept",
    when: isGrid,
    run: (page) => page.accept(),
    help: "in the grid: accept the guess of each selected image",
    helpWhen: isNotBlind,
  },
  {
    key: "t",
    button: "open-type",
    run: (page) => page.typeClass(),
    help: "type the name of a class, or of a new one",
  },
  {
    key: "x",
    button: "none",
    run: (page) => page.answer("none"),
    help: "none of the classes",
  },
  {
    key: "q",
    button: "unsure",
    when: isBlind,
    run: (page) => page.answer("unsure"),
    help: "unsure: you cannot tell",
    helpWhen: isBlind,
  },
  {
    key: "s",
    button: "skip",
    run: (page) => page.skip(),
    help: "skip: the image comes back at the end",
  },
  {
    key: "u",
    button: "undo",
    run: (page) => page.undo(),
    help: (page) =>
      page.state.reveals
        ? "undo your last answer, until you answer another image"
        : "undo, as often as you like",
  },
  {
    key: "ArrowLeft",
    button: "previous",
    run: (page) => page.move(-1),
    help: "look at the previous image",
  },
  {
    key: "ArrowRight",
    button: "next",
    run: (page) => page.move(1),
    help: "look at the next image",
  },
  {
    key: "g",
    button: "toggle-grid",
    run: (page) => page.toggleGrid(),
    help: "grid of similar images: a class key labels all that are selected",
    helpWhen: isNotBlind,
  },
  {
    key: "/",
    button: "open-search",
    run: (page) => page.search(),
    help: "find an image by its file name",
    helpWhen: isNotBlind,
  },
  {
    key: ".",
    button: "toggle-attention",
    when: looks,
    run: (page) => page.attention.toggle(page.current),
    help: "where the models looked: the rest of the image is dark",
    helpWhen: looks,
  },
  { key: "?", button: "open-help", run: (page) => showHelp(page), help: "this help" },
  { key: "Escape", when: isGrid, run: (page) => page.toggleGrid() },
];

const KEY_NAMES = { " ": "Space", ArrowLeft: "←", ArrowRight: "→" };
const COMMAND_OF = new Map(COMMANDS.map((command) => [command.key, command]));
const LETTERS = [..."abcdefghijklmnopqrstuvwxyz"].filter((letter) => !COMMAND_OF.has(letter));
const CLASS_KEYS = [..."1234567890", ...LETTERS];

/**
 * The key of each class, "" where its name has to be typed. A class whose name is a key has that
 * key, so that 4 is 4; the others take what is free, in order.
 */
export function keysOfClasses(names) {
  const taken = new Set();
  const own = names.map((name) => {
    const key = name.toLowerCase();
    if (!CLASS_KEYS.includes(key) || taken.has(key)) return "";
    taken.add(key);
    return key;
  });
  const free = CLASS_KEYS.filter((key) => !taken.has(key));
  return own.map((key) => key || (free.shift() ?? ""));
}

/** Connect every command of `page` with its key and its button, and every class with its key. */
export function bindKeys(page) {
  for (const { key, button, run } of COMMANDS) {
    if (!button) continue;
    byId(button).onclick = () => run(page);
    byId(button).setAttribute("aria-keyshortcuts", key === " " ? "Space" : key);
  }
  addEventListener("keydown", (event) => onKey(page, event));
}

function onKey(page, event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const isGallery = page.gallery.isOpen;
  if (document.querySelector("dialog[open]") || (byId("label-view").hidden && !isGallery)) return;
  if (event.target.matches("input, select, textarea")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (isGallery) {
    if (!event.repeat && page.gallery.onKey(key)) event.preventDefault();
    return;
  }
  if (pressesControl(event.target, key)) return;
  const command = COMMAND_OF.get(key);
  if (command) {
    if (event.repeat && !key.startsWith("Arrow")) return;
    if (command.when && !command.when(page)) return;
    event.preventDefault();
    command.run(page);
  } else if (CLASS_KEYS.includes(key) && !event.repeat) {
    event.preventDefault();
    onClassKey(page, key);
  }
}

/** Space and Enter belong to the control that has the focus, except to a tile of the grid. */
function pressesControl(target, key) {
  const control = target.closest("button, summary, a");
  return control && !control.matches(".tile") && (key === " " || key === "Enter");
}

function onClassKey(page, key) {
  const names = page.state.classes.map(({ name }) => name);
  const place = keysOfClasses(names).indexOf(key);
  if (place >= 0) page.answer("label", names[place]);
  else if (LETTERS.includes(key)) page.typeClass(key);
}

function showHelp(page) {
  const shown = COMMANDS.filter(({ help, helpWhen }) => help && (!helpWhen || helpWhen(page)));
  const text = ({ help }) => (typeof help === "function" ? help(page) : help);
  const classes = helpRow("1 … 9, 0", "the first ten classes; further ones have letters");
  const commands = shown.map((each) => helpRow(KEY_NAMES[each.key] ?? each.key, text(each)));
  byId("help-keys").replaceChildren(classes, ...commands);
  byId("help").showModal();
}

function helpRow(key, text) {
  const name = make("dt", {}, make("kbd", { textContent: key }));
  return make("div", {}, name, make("dd", { textContent: text }));
}
