// Typing a class, finding an image, help.

import { Refused, get } from "./api.js";
import { byId, make, notify, plural } from "./dom.js";
import { answerWords } from "./panel.js";

/** Close `dialog`. Left alone, a field in it would take the keys until the page is next painted. */
function shut(dialog) {
  dialog.close();
  if (dialog.contains(document.activeElement)) document.activeElement.blur();
}

/** Ask for a class by name; `onPick(name, isNew)` gets it. */
export function typeClass(names, start, onPick) {
  const dialog = byId("type");
  const input = byId("type-input");
  const list = byId("type-list");
  let options = [];
  let chosen = 0;

  const take = (place) => {
    const option = options[place];
    if (!option) return;
    shut(dialog);
    onPick(option.name, option.isNew);
  };
  const mark = () => {
    [...list.children].forEach((each, place) => each.setAttribute("aria-selected", place === chosen));
    const current = list.children[chosen];
    if (current) {
      input.setAttribute("aria-activedescendant", current.id);
      current.scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  };
  const refresh = () => {
    const typed = input.value.trim().normalize();
    const sought = typed.toLowerCase();
    const begins = names.filter((name) => name.toLowerCase().startsWith(sought));
    const holds = names.filter((name) => !begins.includes(name) && name.toLowerCase().includes(sought));
    options = [...begins, ...holds].map((name) => ({ name, isNew: false }));
    if (typed && !names.some((name) => name.toLowerCase() === sought)) {
      options.push({ name: typed, isNew: true });
    }
    list.replaceChildren(
      ...options.map((option, place) =>
        make("li", {
          id: `pick-${place}`,
          role: "option",
          textContent: option.isNew ? `Add the class “${option.name}”` : option.name,
          onclick: () => take(place),
        }),
      ),
    );
    chosen = 0;
    mark();
  };
  input.oninput = refresh;
  input.onkeydown = (event) => {
    if (event.key === "Enter") take(chosen);
    else if (event.key === "ArrowDown") chosen = Math.min(chosen + 1, options.length - 1);
    else if (event.key === "ArrowUp") chosen = Math.max(chosen - 1, 0);
    else return;
    event.preventDefault();
    mark();
  };
  input.value = start;
  refresh();
  dialog.showModal();
  input.focus();
}

let asked = 0;

async function find(text, onOpen) {
  const number = (asked += 1);
  let hits = [];
  try {
    hits = text.trim() ? await get("search", { q: text }) : [];
  } catch (error) {
    if (error instanceof Refused) notify(error.message);
    return;
  }
  if (number !== asked) return;
  byId("search-text").textContent = text.trim()
    ? hits.length
      ? `${plural(hits.length, "image")} found.`
      : "No image has that in its name."
    : "Any image of the run can be found and its label changed.";
  byId("search-list").replaceChildren(
    ...hits.map((item) => {
      const says = item.answer ? answerWords(item.answer) : item.label || "no label yet";
      return make(
        "li",
        {},
        make(
          "button",
          { type: "button", className: "quiet", onclick: () => onOpen(item) },
          make("img", { src: `/image/${item.id}?side=256`, alt: "", loading: "lazy" }),
          make("span", {}, item.path, make("small", { textContent: says })),
        ),
      );
    }),
  );
}

/** Let a person find an image; `onOpen(item)` gets it. */
export function search(onOpen) {
  const dialog = byId("search");
  const input = byId("search-input");
  const open = (item) => {
    shut(dialog);
    onOpen(item);
  };
  let timer = 0;
  input.oninput = () => {
    clearTimeout(timer);
    timer = setTimeout(() => find(input.value, open), 120);
  };
  input.onkeydown = (event) => {
    if (event.key === "Enter") byId("search-list").querySelector("button")?.click();
  };
  dialog.showModal();
  input.select();
}

export const help = () => byId("help").showModal();
