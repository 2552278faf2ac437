// What stands beside the image: the run's guesses, the classes, the standing answer.

import { byId, make, number } from "./dom.js";
import { keysFor } from "./keys.js";

const percent = (share) => (share > 0 && share < 0.005 ? "< 1 %" : `${Math.round(100 * share)} %`);

export function answerWords(answer) {
  if (answer.kind === "label") return answer.label;
  return answer.kind === "none" ? "none of the classes" : "unsure";
}

function bar(share) {
  const fill = make("span");
  fill.style.width = `${Math.max(1, 100 * share)}%`;
  return make("span", { className: "bar", "aria-hidden": "true" }, fill);
}

function guessButton(guess, onPick) {
  return make(
    "button",
    { type: "button", className: "guess", onclick: () => onPick(guess.label) },
    make("b", { textContent: guess.label }),
    make("span", { className: "share", textContent: percent(guess.probability) }),
    bar(guess.probability),
  );
}

/** What the run says of an image, after a person has. */
function runWords({ label, guesses }) {
  if (label) return ` The run: ${label}.`;
  return guesses?.length ? ` The run guesses ${guesses[0].label} and is not sure.` : "";
}

function showStanding(item, reviewer, blind) {
  const standing = byId("standing");
  const { answer } = item;
  standing.hidden = !answer && !item.source;
  if (answer) {
    const who = answer.reviewer === reviewer ? "You" : answer.reviewer || "Somebody";
    const run = blind ? runWords(item) : "";
    standing.textContent = `${who} answered: ${answerWords(answer)}.${run}`;
  } else if (item.source) {
    const who = { pseudo: "The run", given: "A given label", copied: "A copy of a label" };
    standing.textContent = `${who[item.source] ?? "The label"} says: ${item.label}.`;
  }
}

/** What is said where the run's label is not shown. */
function hiddenWords(item, { first, reveals }) {
  if (first) return "Drawn at random. What is it?";
  if (!reveals) return "Drawn at random to certify. The run’s label stays hidden.";
  if (!item.answer) return "The run’s label is hidden until you have answered.";
  return "The run’s label is shown when you have answered another image; then this answer stands.";
}

/** Show one item. `onPick` gets the class of a guess that was clicked. */
export function showItem(item, state, reviewer, onPick) {
  const { blind, first } = state;
  showStanding(item, reviewer, blind);
  const guesses = item.guesses ?? [];
  const hidden = first || (blind && item.guesses === undefined);
  byId("reason").textContent = hidden ? hiddenWords(item, state) : (item.reason ?? "");
  byId("guesses").replaceChildren(...guesses.map((guess) => guessButton(guess, onPick)));
  byId("more").hidden = !item.gauges?.length;
  byId("gauges").replaceChildren(
    ...(item.gauges ?? []).map((gauge) =>
      make(
        "div",
        {},
        make("dt", { textContent: gauge.name }),
        make("dd", {}, `${gauge.says}.`, bar(gauge.rank)),
      ),
    ),
  );
  const accept = byId("accept");
  accept.hidden = !guesses.length || blind;
  if (guesses.length) accept.firstElementChild.textContent = `Accept ${guesses[0].label}`;
}

/** `classes` in the order in which they are `known`, new ones last: keys do not change hands. */
export function inOrder(known, classes) {
  const place = new Map(known.map(({ name }, index) => [name, index]));
  const rank = ({ name }) => place.get(name) ?? Infinity;
  return classes.toSorted((a, b) => (rank(a) === rank(b) ? 0 : rank(a) - rank(b)));
}

/** One button a class, with its key and how many labels people gave. */
export function showClasses(classes, onPick) {
  const list = byId("classes");
  const shown = [...list.children].map((button) => button.dataset.name);
  const names = classes.map(({ name }) => name);
  if (shown.join("\n") !== names.join("\n")) {
    const keys = keysFor(names);
    list.replaceChildren(...names.map((name, place) => classButton(name, keys[place], onPick)));
  }
  classes.forEach(({ people, run }, place) => {
    const button = list.children[place];
    button.title = `${number(people)} by people, ${number(run)} by the run`;
    button.lastElementChild.textContent = number(people);
  });
}

function classButton(name, key, onPick) {
  const button = make(
    "button",
    { type: "button", className: "class", onclick: () => onPick(name) },
    ...(key ? [make("kbd", { textContent: key })] : []),
    make("span", { className: "name", textContent: name }),
    make("span", { className: "count" }),
  );
  button.dataset.name = name;
  if (key) button.setAttribute("aria-keyshortcuts", key);
  return button;
}
