// Gives answers and takes them back. The page moves on at once; the outbox sees to the rest.

import { Refused, client, post } from "./api.js";
import { Conflicts } from "./conflicts.js";
import { notify } from "./dom.js";

/** The number of the answer a person saw; of an own one on its way, the number it got. */
const seqOf = (answer) => answer?.seq ?? (answer?.pending ? seqOf(answer.before) : 0);

export class Answers {
  #queue;
  #outbox;
  #reviewer;
  #onStored;
  #firstStands;
  #purpose;
  #steps = [];
  #conflicts;

  /**
   * `reviewer()` is the name to note; `onStored(ids)` is called when answers are on disk;
   * `firstStands()` says whether no answer may replace another, `purpose()` what was asked for.
   */
  constructor(queue, outbox, reviewer, onStored, firstStands, purpose) {
    this.#queue = queue;
    this.#outbox = outbox;
    this.#reviewer = reviewer;
    this.#onStored = onStored;
    this.#firstStands = firstStands;
    this.#purpose = purpose;
    this.#conflicts = new Conflicts(
      ({ item, mine, theirs }) => this.#send([{ item, mine }], theirs?.seq ?? 0),
      ({ item, theirs }) => this.#know(item.id, theirs),
    );
  }

  /** Answer some items at once: `[{item, kind, label, newClass}]` is one step for undo. */
  give(answers) {
    const reviewer = this.#reviewer();
    const given = answers.map(({ item, kind, label = null, newClass = false }) => {
      const mine = { kind, label, reviewer, newClass, pending: true, before: item.answer };
      item.answer = mine;
      this.#queue.settle(item.id, true);
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

  /** Take the last step back; returns the id of the image it was about, or null. */
  async undo() {
    const step = this.#steps.pop();
    if (step?.skipped) {
      this.#queue.unskip(step.skipped);
      return step.skipped;
    }
    if (step) step.ids.forEach((id) => this.#dropConflict(id));
    const seen = () =>
      (step?.ids ?? [])
        .map((id) => ({ id, ...this.#queue.items.get(id)?.answer }))
        .filter(({ seq, reviewer }) => seq && reviewer === this.#reviewer())
        .map(({ id, seq }) => ({ id, seq }));
    const purpose = this.#purpose();
    const { results } = await this.#outbox.add(() => {
      const answers = seen();
      if (step && !answers.length) return { results: [] };
      return post("undo", { reviewer: this.#reviewer(), client, purpose, answers });
    });
    if (step && !results.length) return step.ids[0];
    if (!results.length) {
      notify("There is nothing to undo.");
      return null;
    }
    await this.#queue.describe(results.map(({ id }) => id));
    for (const result of results) {
      if ("conflict" in result) notify("Somebody has answered since: that answer stays.");
      this.#know(result.id, "conflict" in result ? result.conflict : result.answer);
    }
    this.#onStored(results.map(({ id }) => id));
    return results[0].id;
  }

  /** Others answered, or took answers back. */
  hear(answers) {
    for (const { id, answer } of answers) this.#know(id, answer);
  }

  #dropConflict(id) {
    const conflict = this.#conflicts.drop(id);
    if (conflict) this.#know(id, conflict.theirs);
  }

  #know(id, answer) {
    const item = this.#queue.items.get(id);
    if (item) item.answer = answer;
    this.#queue.settle(id, Boolean(answer));
  }

  async #send(given, expected = null) {
    const purpose = this.#purpose();
    const body = () => ({
      reviewer: this.#reviewer(),
      client,
      purpose,
      answers: given.map(({ item, mine }) => ({
        id: item.id,
        kind: mine.kind,
        label: mine.label,
        new_class: Boolean(mine.newClass),
        expected_seq: expected ?? seqOf(mine.before),
      })),
    });
    try {
      const { results } = await this.#outbox.add(() => post("answers", body()));
      results.forEach((result, place) => this.#settle(result, given[place]));
      this.#onStored(results.map(({ id }) => id));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      for (const { item, mine } of given) this.#know(item.id, mine.before ?? null);
      notify(error.message);
    }
  }

  #settle(result, { item, mine }) {
    if ("answer" in result) {
      mine.seq = result.answer.seq;
      if (item.answer === mine) this.#know(item.id, result.answer);
      return;
    }
    const theirs = result.conflict;
    const agreed = theirs && theirs.kind === mine.kind && theirs.label === mine.label;
    if (this.#firstStands()) {
      this.#know(item.id, theirs);
      if (!agreed) notify(`${theirs?.reviewer || "Somebody"} was first: that answer stands.`);
    } else if (agreed) this.#send([{ item, mine }], theirs.seq);
    else this.#conflicts.add({ item, mine, theirs });
  }
}
