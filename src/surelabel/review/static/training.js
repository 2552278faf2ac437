// The training that goes on beside: how far it is, start and stop.

import { Refused, post } from "./api.js";
import { byId, notify } from "./dom.js";

let before = "idle";

export function showTraining(status) {
  const running = status.state === "running";
  byId("training").hidden = !running;
  byId("train").disabled = running;
  byId("finished-train").disabled = running;
  byId("training-text").textContent = status.text;
  const bar = byId("training-bar");
  if (status.total) {
    bar.max = status.total;
    bar.value = status.done;
  } else bar.removeAttribute("value");
  if (!running && before === "running") notify(status.text);
  before = status.state;
}

async function request(path) {
  try {
    showTraining(await post(path));
  } catch (error) {
    notify(error instanceof Refused ? error.message : "The server cannot be reached.");
  }
}

export function wireTraining() {
  byId("train").onclick = () => request("train");
  byId("finished-train").onclick = () => request("train");
  byId("training-stop").onclick = () => request("train/stop");
}
