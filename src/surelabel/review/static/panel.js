// The panel beside the image: the run's guesses, the standing answer, the classes to choose from.

import { answerText } from "./answers.js";
import { byId, closeDialog, formatNumber, make } from "./dom.js";
import { keysOfClasses } from "./keys.js";

const SOURCES = { pseudo: "The run’s label", given: "Given label", copied: "Label of an identical image" };

/** Show what is known of an image. `onPick` gets the class of a guess that was clicked. */
export function showItem(item, state, reviewer, onPick) {
  const { blind, first } = state;
  showStanding(item, reviewer, blind);
  const guesses = item.guesses ?? [];
  const measures = item.measures ?? [];
  const isHidden = first || (blind && item.guesses === undefined);
  byId("reason").textContent = isHidden ? hiddenText(item, state) : (item.reason ?? "");
  byId("guesses").replaceChildren(...guesses.map((guess) => guessButton(guess, onPick)));
  byId("more").hidden = !measures.length;
  byId("measures").replaceChildren(...measures.map(measureRow));
  const accept = byId("accept");
  accept.hidden = !guesses.length || blind;
  if (guesses.length) accept.firstElementChild.textContent = `Accept ${guesses[0].label}`;
}

/** The label that an image has: by a person, by the run or given. */
function showStanding(item, reviewer, blind) {
  const standing = byId("standing");
  const { answer } = item;
  standing.hidden = !answer && !item.source;
  if (answer) {
    const who = answer.reviewer === reviewer ? "You" : answer.reviewer || "Somebody";
    standing.textContent = `${who} answered: ${answerText(answer)}.${blind ? runText(item) : ""}`;
  } else if (item.source) {
    standing.textContent = `${SOURCES[item.source] ?? "Label"}: ${item.label || "none of the classes"}.`;
  }
}

/** What the run thinks of an image, shown after a person has answered. */
function runText({ label, guesses }) {
  if (label) return ` The run’s label: ${label}.`;
  return guesses?.length ? ` The run’s guess, not accepted: ${guesses[0].label}.` : "";
}

/** What stands in place of the run's guesses while they are hidden. */
function hiddenText(item, { first, reveals }) {
  if (first) return "Which class is it?";
  if (!reveals) return "Drawn at random to certify the run. The run’s label stays hidden.";
  if (!item.answer) return "The run’s label is hidden until you have answered.";
  return "You can still undo this answer. Once you answer another image, it is final and the run’s label is shown.";
}

function guessButton({ label, probability }, onPick) {
  return make(
    "button",
    { type: "button", className: "guess", onclick: () => onPick(label) },
    make("b", { textContent: label }),
    make("span", { className: "share", textContent: percent(probability) }),
    bar(probability),
  );
}

function measureRow({ name, text, rank }) {
  const meaning = make("dd", {}, `${text}.`, bar(rank));
  return make("div", {}, make("dt", { textContent: name }), meaning);
}

function percent(share) {
  return share > 0 && share < 0.005 ? "< 1%" : `${Math.round(100 * share)}%`;
}

function bar(share) {
  const fill = make("span");
  fill.style.width = `${Math.max(1, 100 * share)}%`;
  return make("span", { className: "bar", "aria-hidden": "true" }, fill);
}

/** `classes` in the order of `known`, new ones last, so that none changes its key. */
export function inKnownOrder(known, classes) {
  const place = new Map(known.map(({ name }, index) => [name, index]));
  const rank = ({ name }) => place.get(name) ?? Infinity;
  return classes.toSorted((a, b) => (rank(a) === rank(b) ? 0 : rank(a) - rank(b)));
}

/** One button per class, with its key and how many labels people gave. */
export function showClasses(classes, onPick) {
  const list = byId("classes");
  const shown = [...list.children].map((each) => each.dataset.name);
  const names = classes.map(({ name }) => name);
  if (shown.join("\n") !== names.join("\n")) {
    const keys = keysOfClasses(names);
    list.replaceChildren(...names.map((name, place) => classButton(name, keys[place], onPick)));
  }
  classes.forEach(({ people, run }, place) => {
    const each = list.children[place];
    each.title = `${formatNumber(people)} by people, ${formatNumber(run)} by the run`;
    each.lastElementChild.textContent = formatNumber(people);
  });
}

function classButton(name, key, onPick) {
  const element = make(
    "button",
    { type: "button", className: "class", onclick: () => onPick(name) },
    ...(key ? [make("kbd", { textContent: key })] : []),
    make("span", { className: "name", textContent: name }),
    make("span", { className: "count" }),
  );
  element.dataset.name = name;
  if (key) element.setAttribute("aria-keyshortcuts", key);
  return element;
}

/** Let the reviewer type the name of a class; `onPick(name, isNew)` gets it. */
export function typeClass(names, start, onPick) {
  const dialog = byId("type");
  const input = byId("type-input");
  const list = byId("type-list");
  let options = [];
  let selected = 0;

  const pick = (place) => {
    const option = options[place];
    if (!option) return;
    closeDialog(dialog);
    onPick(option.name, option.isNew);
  };
  const showSelected = () => {
    [...list.children].forEach((each, place) => each.setAttribute("aria-selected", place === selected));
    const current = list.children[selected];
    if (current) {
      input.setAttribute("aria-activedescendant", current.id);
      current.scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  };
  const showOptions = () => {
    options = matchingClasses(names, input.value.trim().normalize());
    list.replaceChildren(
      ...options.map(({ name, isNew }, place) =>
        make("li", {
          id: `pick-${place}`,
          role: "option",
          textContent: isNew ? `Add the class “${name}”` : name,
          onclick: () => pick(place),
        }),
      ),
    );
    selected = 0;
    showSelected();
  };
  input.oninput = showOptions;
  input.onkeydown = (event) => {
    if (event.key === "Enter") pick(selected);
    else if (event.key === "ArrowDown") selected = Math.min(selected + 1, options.length - 1);
    else if (event.key === "ArrowUp") selected = Math.max(selected - 1, 0);
    else return;
    event.preventDefault();
    showSelected();
  };
  input.value = start;
  showOptions();
  dialog.showModal();
  input.focus();
}

/** The classes that contain `typed`, those that begin with it first; then `typed` as a new one. */
function matchingClasses(names, typed) {
  const wanted = typed.toLowerCase();
  const begin = names.filter((name) => name.toLowerCase().startsWith(wanted));
  const contain = names.filter((name) => !begin.includes(name) && name.toLowerCase().includes(wanted));
  const options = [...begin, ...contain].map((name) => ({ name, isNew: false }));
  if (typed && !names.some((name) => name.toLowerCase() === wanted)) {
    options.push({ name: typed, isNew: true });
  }
  return options;
}
