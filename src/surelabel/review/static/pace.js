// How far, how fast, how long still.

import { number } from "./dom.js";

const WINDOW = 20;
const BREAK_MS = 60_000;

export class Pace {
  #last = null;
  #steps = [];

  /** Note that `count` answers were given now. Longer breaks do not count. */
  tick(count = 1, now = performance.now()) {
    if (this.#last !== null && now - this.#last < BREAK_MS) {
      this.#steps.push((now - this.#last) / count);
      this.#steps = this.#steps.slice(-WINDOW);
    }
    this.#last = now;
  }

  /** Mean milliseconds an answer, or null while there are too few to tell. */
  get mean() {
    if (this.#steps.length < 3) return null;
    return this.#steps.reduce((sum, step) => sum + step, 0) / this.#steps.length;
  }

  text(done, total) {
    const start = `${number(done)} of ${number(total)}`;
    if (this.mean === null || done >= total) return start;
    const each = `${(this.mean / 1000).toFixed(1)} s each`;
    return `${start}, ${each}, about ${duration(((total - done) * this.mean) / 1000)} left`;
  }
}

function duration(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} minutes`;
  const hours = Math.round(minutes / 30) / 2;
  return `${hours} hours`;
}
