// Progress: of the reviewer through the queue, of answers to the server, of the training.

import { byId, formatNumber, make, notify, plural } from "./dom.js";
import { Refused, post } from "./server.js";

const PACE_ANSWERS = 20;
const MIN_ANSWERS = 3;
const BREAK_MS = 60_000;

/** How fast the reviewer answers, over the last answers. Breaks do not count. */
export class Pace {
  #last = null;
  #intervals = [];

  /** `count` answers were given now. */
  add(count = 1, now = performance.now()) {
    if (this.#last !== null && now - this.#last < BREAK_MS) {
      this.#intervals.push((now - this.#last) / count);
      this.#intervals = this.#intervals.slice(-PACE_ANSWERS);
    }
    this.#last = now;
  }

  /** Mean milliseconds per answer, or null while there are too few to tell. */
  get mean() {
    if (this.#intervals.length < MIN_ANSWERS) return null;
    return this.#intervals.reduce((sum, each) => sum + each, 0) / this.#intervals.length;
  }
}

/** How many of the images have an answer; with `goal`, of how many that are enough for now. */
export function showProgress({ done, total: all }, { mean }, goal = null) {
  const total = goal !== null && done <= goal ? Math.min(goal, all) : all;
  byId("done").max = Math.max(1, total);
  byId("done").value = done;
  let text = `${formatNumber(done)} of ${formatNumber(total)}`;
  if (mean !== null && done < total) {
    const left = duration(((total - done) * mean) / 1000);
    text += `, ${(mean / 1000).toFixed(1)} s per image, about ${left} left`;
  }
  byId("pace").textContent = text;
}

export function duration(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} minutes`;
  return `${Math.round(minutes / 30) / 2} hours`;
}

/** Every image has an answer: say so, and what to do next. */
export function showFinished({ total, skipped }, state, outbox) {
  const all = total === 1 ? "The image has" : `All ${formatNumber(total)} images have`;
  byId("finished-text").textContent = total
    ? `${all} an answer. ${nextStep(state)}`
    : "Nothing is left: every image has a label.";
  if (state.certify) byId("finished-text").textContent = state.certify.text;
  byId("result").hidden = true;
  byId("finished-train").hidden = !state.can_train || state.guided;
  byId("finished-next").hidden = !state.guided || state.blind;
  byId("finished-next").textContent = state.first ? "Continue: train" : "See the result";
  byId("finished-skipped").hidden = !skipped.length || state.is_settled;
  byId("finished-result").hidden = !state.has_result || state.is_settled;
  if (state.purpose === "audit" || state.is_settled) outbox.idle.then(showResult);
}

/** Fetch what the answers of a blind check show, and show it. */
export async function showResult() {
  try {
    const { sentences, rows, is_final: isFinal } = await post("result");
    const list = byId("result");
    list.hidden = false;
    list.replaceChildren(...sentences.map((text) => make("p", { textContent: text })), ...table(rows));
    byId("finished-result").hidden = isFinal;
    if (isFinal) byId("finished-text").textContent = "The result, which is also stored in the run:";
    dispatchEvent(new Event("result"));
  } catch (error) {
    notify(error instanceof Refused ? error.message : "The server cannot be reached.");
  }
}

function table(rows) {
  if (!rows.length) return [];
  const cells = (tag, row) => make("tr", {}, ...row.map((text) => make(tag, { textContent: text })));
  const head = cells("th", ["Class", "Checked", "Wrong", "Wrong in all"]);
  return [make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows.map((row) => cells("td", row))))];
}

function nextStep({ first, blind, purpose, path, guided }) {
  if (purpose === "certify") return "Show the result: these answers are then final.";
  if (blind) return "Stop the server in the terminal (ctrl-C). It then writes the answers.";
  if (guided) return "";
  if (first) return "Now you can train the first rounds.";
  return `Continue training with these answers, or export all labels:\nsurelabel export ${path}`;
}

/** Say how many answers wait while the server cannot be reached. */
export function showConnection({ offline, size }) {
  document.body.dataset.waiting = size;
  byId("offline").hidden = !offline;
  byId("offline").textContent =
    `The server cannot be reached. Not saved yet: ${plural(size, "answer")}. Keep this page open, it keeps ` +
    "trying. If the server was restarted, open its new link in another tab.";
}

let lastState = "idle";

export function showTraining({ state, text, done, total, seconds_left: left }) {
  const isRunning = state === "running";
  byId("training").hidden = !isRunning;
  byId("train").disabled = isRunning;
  byId("finished-train").disabled = isRunning;
  byId("training-text").textContent = left ? `${text}, about ${duration(left)} left` : text;
  const bar = byId("training-bar");
  if (total) {
    bar.max = total;
    bar.value = done;
  } else bar.removeAttribute("value");
  if (!isRunning && lastState === "running") notify(text);
  lastState = state;
}

/** Connect the buttons that start and stop the training. */
export function bindTraining() {
  const send = (path) => async () => {
    try {
      showTraining(await post(path));
    } catch (error) {
      notify(error instanceof Refused ? error.message : "The server cannot be reached.");
    }
  };
  byId("finished-result").onclick = showResult;
  byId("train").onclick = send("train");
  byId("finished-train").onclick = send("train");
  byId("training-stop").onclick = send("train/stop");
}
