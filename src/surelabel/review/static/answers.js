// Gives answers, undoes them, and settles conflicts with other reviewers. The page moves on at
// once; the outbox delivers.

import { button, byId, make, notify } from "./dom.js";
import { Refused, client, post } from "./server.js";

/** An answer as a word or two. */
export function answerText(answer) {
  if (answer.kind === "label") return answer.label;
  return answer.kind === "none" ? "none of the classes" : "unsure";
}

/** The number of the answer that the reviewer saw; if it was their own and is still on its way,
 * the number it got meanwhile. */
const seqOf = (answer) => answer?.seq ?? (answer?.pending ? seqOf(answer.before) : 0);

export class Answers {
  #queue;
  #outbox;
  #page;
  #steps = [];
  #conflicts;

  /** `page` has `reviewer` and `state`; its `refresh(ids)` is called when answers are on disk. */
  constructor(queue, outbox, page) {
    this.#queue = queue;
    this.#outbox = outbox;
    this.#page = page;
    this.#conflicts = new Conflicts(
      ({ item, mine, theirs }) => this.#send([{ item, mine }], theirs?.seq ?? 0),
      ({ item, theirs }) => this.#set(item.id, theirs),
    );
  }

  /** Answer some items at once: `[{item, kind, label, newClass}]` is one step for undo. */
  give(answers) {
    const { reviewer } = this.#page;
    const given = answers.map(({ item, kind, label = null, newClass = false }) => {
      const mine = { kind, label, reviewer, newClass, pending: true, before: item.answer };
      item.answer = mine;
      this.#queue.setAnswered(item.id, true);
      this.#queue.unskip(item.id);
      return { item, mine };
    });
    this.#steps.push({ ids: answers.map(({ item }) => item.id) });
    return this.#send(given);
  }

  skip(id) {
    this.#queue.skip(id);
    this.#steps.push({ skipped: id });
  }

  /** Undo the last step; returns the id of the image it was about, or null. */
  async undo() {
    const step = this.#steps.pop();
    if (step?.skipped) {
      this.#queue.unskip(step.skipped);
      return step.skipped;
    }
    if (step) step.ids.forEach((id) => this.#dropConflict(id));
    const { purpose } = this.#page.state;
    const { results } = await this.#outbox.add(() => {
      const { reviewer } = this.#page;
      const answers = this.#ownAnswers(step?.ids ?? []);
      if (step && !answers.length) return { results: [] };
      return post("undo", { reviewer, client, purpose, answers });
    });
    if (step && !results.length) return step.ids[0];
    if (!results.length) {
      notify("There is nothing to undo.");
      return null;
    }
    await this.#queue.fetchItems(results.map(({ id }) => id));
    for (const result of results) {
      if ("conflict" in result) notify("Somebody has answered since: that answer stays.");
      this.#set(result.id, "conflict" in result ? result.conflict : result.answer);
    }
    this.#page.refresh(results.map(({ id }) => id));
    return results[0].id;
  }

  /** Other reviewers answered or undid answers. */
  receive(answers) {
    for (const { id, answer } of answers) this.#set(id, answer);
  }

  #ownAnswers(ids) {
    return ids
      .map((id) => ({ id, ...this.#queue.items.get(id)?.answer }))
      .filter(({ seq, reviewer }) => seq && reviewer === this.#page.reviewer)
      .map(({ id, seq }) => ({ id, seq }));
  }

  #dropConflict(id) {
    const conflict = this.#conflicts.drop(id);
    if (conflict) this.#set(id, conflict.theirs);
  }

  #set(id, answer) {
    const item = this.#queue.items.get(id);
    if (item) item.answer = answer;
    this.#queue.setAnswered(id, Boolean(answer));
  }

  async #send(given, expectedSeq = null) {
    const { purpose } = this.#page.state;
    const body = () => ({
      reviewer: this.#page.reviewer,
      client,
      purpose,
      answers: given.map(({ item, mine }) => ({
        id: item.id,
        kind: mine.kind,
        label: mine.label,
        new_class: Boolean(mine.newClass),
        expected_seq: expectedSeq ?? seqOf(mine.before),
      })),
    });
    try {
      const { results } = await this.#outbox.add(() => post("answers", body()));
      results.forEach((result, place) => this.#onResult(result, given[place]));
      this.#page.refresh(results.map(({ id }) => id));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      for (const { item, mine } of given) this.#set(item.id, mine.before ?? null);
      notify(error.message);
    }
  }

  #onResult(result, { item, mine }) {
    if ("answer" in result) {
      mine.seq = result.answer.seq;
      if (item.answer === mine) this.#set(item.id, result.answer);
      return;
    }
    const theirs = result.conflict;
    const agreed = theirs && theirs.kind === mine.kind && theirs.label === mine.label;
    if (this.#page.state.reveals) {
      this.#set(item.id, theirs);
      if (!agreed) notify(`${theirs?.reviewer || "Somebody"} was first: that answer stands.`);
    } else if (agreed) this.#send([{ item, mine }], theirs.seq);
    else this.#conflicts.add({ item, mine, theirs });
  }
}

/** Images that two reviewers answered differently: shows both answers and lets a person decide. */
class Conflicts {
  #waiting = [];
  #onMine;
  #onTheirs;

  /** `onMine(conflict)` stores one's own answer over the other; `onTheirs` leaves it. */
  constructor(onMine, onTheirs) {
    this.#onMine = onMine;
    this.#onTheirs = onTheirs;
  }

  /** `{item, mine, theirs}`; `theirs` is null if the answer that was seen has been undone. */
  add(conflict) {
    const others = this.#waiting.filter((each) => each.item.id !== conflict.item.id);
    this.#waiting = [...others, conflict];
    this.#show();
  }

  /** Forget the conflict about `id`; returns it if there was one. */
  drop(id) {
    const conflict = this.#waiting.find((each) => each.item.id === id);
    this.#waiting = this.#waiting.filter((each) => each !== conflict);
    this.#show();
    return conflict;
  }

  #show() {
    const strip = byId("conflict");
    const [conflict] = this.#waiting;
    strip.hidden = !conflict;
    if (!conflict) return strip.replaceChildren();
    const { item, mine, theirs } = conflict;
    const who = theirs?.reviewer || "Somebody else";
    const did = theirs ? `answered ${answerText(theirs)}` : "undid the answer";
    const more = this.#waiting.length > 1 ? ` (${this.#waiting.length - 1} more after this)` : "";
    const text = `${item.path}: ${who} ${did}; you answered ${answerText(mine)}.${more}`;
    const decide = (choice) => () => {
      this.drop(item.id);
      choice(conflict);
    };
    return strip.replaceChildren(
      make("img", { src: `/image/${item.id}?side=256`, alt: "" }),
      make("p", { textContent: text }),
      button(theirs ? `Keep ${answerText(theirs)}` : "Leave it open", decide(this.#onTheirs)),
      button(`Use ${answerText(mine)}`, decide(this.#onMine)),
    );
  }
}
