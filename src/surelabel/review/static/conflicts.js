// Two people said different things about an image: show both, let a person decide.

import { byId, make } from "./dom.js";
import { answerWords } from "./panel.js";

export class Conflicts {
  #waiting = [];
  #onMine;
  #onTheirs;

  /** `onMine(conflict)` stores one's own answer over the other; `onTheirs` leaves it. */
  constructor(onMine, onTheirs) {
    this.#onMine = onMine;
    this.#onTheirs = onTheirs;
  }

  /** `{item, mine, theirs}`; `theirs` is null when the answer that was seen was taken back. */
  add(conflict) {
    this.#waiting = [...this.#waiting.filter((each) => each.item.id !== conflict.item.id), conflict];
    this.#show();
  }

  /** Forget the conflict about `id`; returns it if there was one. */
  drop(id) {
    const found = this.#waiting.find((each) => each.item.id === id);
    this.#waiting = this.#waiting.filter((each) => each !== found);
    this.#show();
    return found;
  }

  #show() {
    const strip = byId("conflict");
    const [conflict] = this.#waiting;
    strip.hidden = !conflict;
    if (!conflict) return strip.replaceChildren();
    const { item, mine, theirs } = conflict;
    const who = theirs?.reviewer || "Somebody else";
    const said = theirs ? `says ${answerWords(theirs)}` : "took the answer back";
    const more = this.#waiting.length > 1 ? ` (${this.#waiting.length - 1} more after this)` : "";
    const text = `${item.path}: ${who} ${said}; you say ${answerWords(mine)}.${more}`;
    const keep = theirs ? `Keep ${answerWords(theirs)}` : "Leave it open";
    const decide = (choice) => () => {
      this.drop(item.id);
      choice(conflict);
    };
    return strip.replaceChildren(
      make("img", { src: `/image/${item.id}?side=256`, alt: "" }),
      make("p", { textContent: text }),
      make("button", { type: "button", className: "quiet", textContent: keep, onclick: decide(this.#onTheirs) }),
      make("button", {
        type: "button",
        className: "quiet",
        textContent: `Use ${answerWords(mine)}`,
        onclick: decide(this.#onMine),
      }),
    );
  }
}
