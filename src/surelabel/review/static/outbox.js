// Sends answers one after the other, in the order they were given, until each is acknowledged.

import { Refused } from "./api.js";

const RETRY_MS = 1000;
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Outbox {
  #tail = Promise.resolve();
  #onChange;
  size = 0;
  offline = false;

  /** `onChange` is called when the number of answers on their way changes, or the connection. */
  constructor(onChange) {
    this.#onChange = onChange;
    addEventListener("beforeunload", (event) => {
      if (this.size) event.preventDefault();
    });
    onChange(this);
  }

  /** Resolves when all that was given so far is acknowledged or refused. */
  get idle() {
    return this.#tail;
  }

  /** Run `send` after all before it; on a lost connection again and again. */
  add(send) {
    this.#count(1);
    const sent = this.#tail.then(() => this.#persist(send)).finally(() => this.#count(-1));
    this.#tail = sent.catch(() => {});
    return sent;
  }

  async #persist(send) {
    for (;;) {
      try {
        const result = await send();
        this.#connected(true);
        return result;
      } catch (error) {
        if (error instanceof Refused) {
          this.#connected(true);
          throw error;
        }
        this.#connected(false);
        await wait(RETRY_MS);
      }
    }
  }

  #connected(yes) {
    this.offline = !yes;
    this.#onChange(this);
  }

  #count(by) {
    this.size += by;
    this.#onChange(this);
  }
}
