// What is said when every image has an answer.

import { byId, number } from "./dom.js";

function nextStep({ first, blind, path }) {
  if (blind) return "Stop the server in the terminal (ctrl-C): it says what came of it.";
  if (first) return "Now the first rounds can be trained.";
  return `Train on with these answers, or write all labels:\nsurelabel export ${path}`;
}

export function showFinished({ total, skipped }, state) {
  byId("finished-text").textContent = total
    ? `${total === 1 ? "The image has" : `All ${number(total)} images have`} an answer. ${nextStep(state)}`
    : "Nothing is left: every image has a label.";
  byId("finished-train").hidden = !state.can_train;
  byId("finished-skipped").hidden = !skipped.length;
}
