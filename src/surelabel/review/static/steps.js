// What the steps show. Every number comes from the server; nothing is decided here.

import { button, byId, formatNumber, make, notify, plural } from "./dom.js";
import { keysOfClasses } from "./keys.js";
import { duration } from "./progress.js";
import { Refused, get } from "./server.js";

const title = (text) => make("h2", { textContent: text, tabIndex: -1 });
const paragraph = (text, className = "") => make("p", { textContent: text, className });
const card = (...children) => make("section", { className: "card" }, ...children);
const row = (...children) => make("div", { className: "row" }, ...children);
const main = (text, onclick, properties = {}) => button(text, onclick, { className: "main", ...properties });
const percent = (share) => `${+(100 * share).toPrecision(3)} %`;
const minutes = (n, seconds) => duration(n * seconds);

function facts(...pairs) {
  const rows = pairs.map(([name, value]) =>
    make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value })),
  );
  return make("dl", { className: "facts" }, ...rows);
}

/** The text and buttons above the images of a step. */
export function goalOf(step, j) {
  if (step === "labels") return labelsGoal(j);
  return step === "wish" ? checksGoal(j) : finishGoal(j);
}

function labelsGoal(j) {
  const isTraining = j.training.state === "running";
  if (j.by_hand) {
    return {
      text: `${formatNumber(j.n_human)} of ${plural(j.n_images, "image")} labeled by hand.`,
      buttons: [{ text: "Let it train instead", run: (w) => setByHand(w, false) }],
    };
  }
  const left = j.n_wanted - j.n_human;
  const enough = left > 0 ? `About ${formatNumber(left)} more are enough to train.` : "That is enough to train.";
  let text = `${plural(j.n_human, "image")} labeled so far. ${enough}`;
  if (isTraining) text = "Training is running. Labels that you give now are used the next time.";
  else if (!j.can_train) text += " Training needs at least two classes, and two labels per class on average.";
  const train = { text: isTraining ? "Show the training" : "Train", isMain: left <= 0, isOff: !j.can_train && !isTraining };
  return { text, buttons: [{ ...train, run: (w) => (isTraining ? w.show("train") : w.go("train")) }] };
}

function checksGoal(j) {
  const { max_error: maxError, n } = j.wish;
  return {
    text:
      `Your wish: at most ${percent(maxError)} wrong. Label up to ${plural(n, "random image")}, without seeing ` +
      "what the run thinks. Then the page says what can be promised.",
    buttons: [{ text: "Change the wish", run: (w) => changeWish(w) }],
  };
}

function finishGoal(j) {
  const left = j.n_left ? `${plural(j.n_left, "image")} left to label by hand. ` : "Every image has a label. ";
  const promise = j.promise.length ? j.promise.join(" ") : "No promise: nothing was checked.";
  const buttons = [{ text: "To the result", isMain: !j.n_left, run: (w) => w.go("done") }];
  if (j.n_new && j.n_left) {
    const isTraining = j.training.state === "running";
    buttons.push({ text: `Train again with ${plural(j.n_new, "answer")}`, isOff: isTraining, run: (w) => w.go("train") });
  }
  return { text: left + promise, buttons };
}

async function setByHand(journey, byHand) {
  if (await journey.change("plan/by-hand", { by_hand: byHand })) await journey.show("labels");
}

async function changeWish(journey) {
  journey.isChoosing = true;
  await journey.show("wish");
}

// Look

function look(j, journey) {
  const { look: found, preparing } = j;
  return [
    title("What was found"),
    paragraph(found.images, "path"),
    facts(
      ["Images", formatNumber(found.n_images)],
      ["Exact copies among them", formatNumber(found.n_copies)],
      ["Nearly identical", preparing.state === "running" ? "counting…" : plural(found.n_near_duplicates, "pair")],
      ["Files that cannot be used", formatNumber(found.n_skipped)],
    ),
    ...skippedList(found),
    ...folderQuestion(j, journey),
    effortCard(j, journey),
    preparation(preparing),
    row(main("Continue: name the classes", () => journey.go("classes"))),
  ];
}

function skippedList({ skipped, n_skipped: n }) {
  if (!n) return [];
  const items = skipped.map(({ path, reason }) => make("li", { textContent: `${path}: ${reason}` }));
  const more = n > skipped.length ? [make("li", { textContent: `and ${formatNumber(n - skipped.length)} more` })] : [];
  const list = make("ul", { className: "plain-list" }, ...items, ...more);
  return [make("details", {}, make("summary", { textContent: "Which files cannot be used, and why" }), list)];
}

function folderQuestion(j, journey) {
  const { folders, folders_are_classes: answer } = j.look;
  if (!folders.length || j.rounds) return [];
  const names = folders.slice(0, 8).map(({ name, n }) => `${name} (${formatNumber(n)})`);
  const more = folders.length > 8 ? ` and ${folders.length - 8} more` : "";
  const set = (areClasses) => async () => {
    if (await journey.change("plan/folders", { are_classes: areClasses })) await journey.show("look");
  };
  const choice = (text, value) =>
    button(text, set(value), { "aria-pressed": String(answer === value) });
  return [
    card(
      make("h3", { textContent: "Are these sub-folders classes?" }),
      paragraph(`${names.join(", ")}${more}.`),
      paragraph("If they are, their names become the labels of the images in them. If not, they are only folders.", "hint"),
      row(choice("Yes, they are classes", true), choice("No, only folders", false)),
    ),
  ];
}

function effortCard(j, journey) {
  const { n_first: first, n_checks: checks, n_by_hand: all, by_hand_is_better: byHand } = j.effort;
  const seconds = j.label_seconds;
  const withRun = `About ${formatNumber(first)} first labels and ${formatNumber(checks)} checks for a promise of 2 % (${minutes(first + checks, seconds)}), then what is left.`;
  const alone = `All ${formatNumber(all)} by hand: ${minutes(all, seconds)}.`;
  const advice = byHand
    ? "For so few images it is better to label all of them by hand: it hardly takes longer, and every label is yours."
    : "";
  return card(
    make("h3", { textContent: "How long it takes you" }),
    paragraph(`${withRun} ${alone}`),
    paragraph(`Counted with ${seconds} s per label.`, "hint"),
    ...(advice ? [make("p", { className: "advice", textContent: advice })] : []),
    ...(byHand && !j.by_hand && !j.rounds
      ? [row(button("Label everything by hand", () => chooseByHand(journey)))]
      : []),
  );
}

async function chooseByHand(journey) {
  if (!(await journey.change("plan/by-hand", { by_hand: true }))) return;
  await journey.show(journey.facts.classes.length ? "labels" : "classes");
}

function preparation({ state, text, done, total, seconds_left: left }) {
  if (state !== "running") return paragraph(state === "failed" ? text : "The images are ready.", "hint");
  const said = left ? `${text}: about ${duration(left)} left.` : `${text}.`;
  const bar = make("progress", { max: Math.max(1, total), value: done, "aria-label": "Preparation" });
  return make("div", { className: "hint" }, paragraph(`Working in the background: ${said} You need not wait.`), bar);
}

// Classes

function classes(j, journey) {
  const names = j.classes.map(({ name }) => name);
  const keys = keysOfClasses(names);
  const area = make("textarea", { id: "class-names", rows: Math.max(5, names.length + 1), spellcheck: false, value: names.join("\n") });
  area.setAttribute("aria-describedby", "class-help");
  const save = async () => {
    const typed = area.value.split(/[\n\t;,]+/).map((each) => each.trim()).filter(Boolean);
    return journey.change("plan/classes", { names: typed });
  };
  const file = make("input", { type: "file", accept: ".csv,.tsv,.txt", id: "class-file" });
  file.onchange = async () => {
    area.value = namesOfTable(await file.files[0].text()).join("\n");
  };
  const used = j.classes.filter(({ n }) => n).map(({ name, n }) => `${name} (${formatNumber(n)})`);
  return [
    title("Which classes are there?"),
    make("label", { htmlFor: "class-names", textContent: "One name per line, or with commas between" }),
    area,
    paragraph("More classes can be added at any time, also while labeling (key t).", "hint"),
    make("div", { className: "field-row" }, make("label", { htmlFor: "class-file", textContent: "Or take the names from a table (column label)" }), file),
    ...(used.length ? [paragraph(`These have labels already, so they stay: ${used.join(", ")}.`, "hint")] : []),
    ...(names.length ? [keyList(names, keys)] : []),
    make("p", {
      id: "class-help",
      className: "hint",
      textContent:
        "Key x, none of these, is for images that belong to no class: blurred ones, or ones that are here by mistake. " +
        "They get no class and are not learned from. You need not add a class for them.",
    }),
    row(
      main("Save and label the first images", async () => {
        if (!(await save())) return;
        if (journey.facts.classes.length < 2) notify("Name at least two classes.");
        else await journey.show("labels");
      }),
      button("Save", async () => (await save()) && journey.show("classes")),
    ),
  ];
}

function keyList(names, keys) {
  const items = names.map((name, place) =>
    make("li", {}, make("kbd", { textContent: keys[place] || "t" }), ` ${name}`),
  );
  return make("ul", { className: "key-list", "aria-label": "Keys" }, ...items);
}

/** The different values of the column label, or of the last column. */
export function namesOfTable(text) {
  const lines = text.split(/\r?\n/).filter((line) => line.trim());
  if (!lines.length) return [];
  const separator = ["\t", ";", ","].find((each) => lines[0].includes(each)) ?? "\n";
  const cells = lines.map((line) => line.split(separator).map((cell) => cell.trim().replace(/^"(.*)"$/, "$1")));
  const head = cells[0].map((cell) => cell.toLowerCase());
  const named = head.findIndex((cell) => ["label", "class", "name"].includes(cell));
  const column = named >= 0 ? named : head.length - 1;
  const values = cells.slice(named >= 0 ? 1 : 0).map((each) => each[column] ?? "");
  return [...new Set(values.filter(Boolean))];
}

// Train

function train(j, journey) {
  const { training, n_new: news } = j;
  const isRunning = training.state === "running";
  const labeled = j.classes.filter(({ n }) => n).length;
  const isTrained = j.is_trained || (j.rounds && !j.n_left);
  const parts = [title(isRunning ? "Training" : isTrained ? "Trained" : "Ready to train")];
  parts.push(
    facts(
      ["Labels by people", formatNumber(j.n_human)],
      ["Classes with labels", formatNumber(labeled)],
      ["Rounds finished", formatNumber(j.rounds)],
    ),
  );
  if (isRunning) parts.push(runningCard(training, journey));
  else {
    if (training.state === "failed") parts.push(make("p", { className: "advice", textContent: training.text }));
    if (j.rounds) parts.push(paragraph(j.headline), paragraph(j.estimate, "hint"));
    if (news && j.rounds) parts.push(paragraph(`${plural(news, "answer")} came in since. Train again to use ${news === 1 ? "it" : "them"}.`));
    if (!j.rounds && j.n_human < j.n_wanted) {
      parts.push(paragraph(`With about ${plural(j.n_wanted - j.n_human, "more label")} the result will be better. With too few, the run accepts nothing.`, "hint"));
    }
    if (j.is_certified) parts.push(make("p", { className: "advice", textContent: "The promise is about the labels as they are now. If you train again, you have to check again." }));
    parts.push(trainButtons(j, journey));
  }
  return parts;
}

function runningCard({ text, done, total, seconds_left: left }, journey) {
  const bar = make("progress", { "aria-label": "Progress of this part" });
  if (total) {
    bar.max = total;
    bar.value = done;
  }
  return card(
    paragraph(left ? `${text}, about ${duration(left)} left` : text),
    bar,
    paragraph("It reads the images, computes features, trains in rounds until hardly any label changes, and writes the report. You can go on labeling or close this page: training continues.", "hint"),
    row(main("Keep labeling meanwhile", () => journey.show("labels"))),
  );
}

function trainButtons(j, journey) {
  const start = j.rounds ? "Train again" : "Start training";
  const begin = (isMain) =>
    button(start, () => journey.train(), { id: "start-training", className: isMain ? "main" : "quiet", disabled: !j.can_train });
  if (j.rounds && !j.n_left) return row(main("See the result", () => journey.go("done")), begin(false));
  if (j.is_trained) return row(main("Continue: your wish", () => journey.go("wish")), begin(false));
  const more = button("Label some more first", () => journey.show(j.rounds ? "finish" : "labels"));
  return row(begin(true), more);
}

// Wish

function wish(j, journey) {
  const parts = [title("How many wrong labels can you live with?")];
  if (j.is_certified && !journey.isChoosing) {
    const head = j.promise_holds ? "The promise" : "No promise can be made";
    parts.push(card(make("h3", { textContent: head }), ...j.promise.map((text) => paragraph(text))));
    const other = button("Another wish, with new checks", () => changeWish(journey));
    const [text, next] = j.n_left ? ["Continue: label what is left", "finish"] : ["See the result", "done"];
    parts.push(row(main(text, () => journey.go(next)), other));
    return parts;
  }
  parts.push(paragraph(j.headline));
  parts.push(paragraph(`To promise that, surelabel asks you to label a random sample, without showing you its own labels, and compares. The promise holds with ${percent(j.confidence)} confidence, however good or bad the model is.`));
  if (!j.is_trained) {
    parts.push(make("p", { className: "advice", textContent: `${plural(j.n_new, "answer")} came in since the last training. Train with them first: a check is about the labels as they are.` }));
    parts.push(row(main("Back to training", () => journey.go("train"))));
    return parts;
  }
  parts.push(make("div", { className: "choices" }, ...j.wishes.map((each) => wishButton(each, j, journey))));
  parts.push(ownWish(j, journey));
  parts.push(effortPanel());
  parts.push(row(button("Continue without a promise", async () => {
    if (await journey.change("plan/wish", { max_error: null })) await journey.show("finish");
  })));
  return parts;
}

/** Ways to the finished dataset; counted when somebody asks, because the forecast takes a second. */
function effortPanel() {
  const body = make("div", { role: "status" }, paragraph("Counting…", "hint"));
  const show = async () => {
    const { sentence, rows, note } = await get("effort");
    const cells = (tag, texts) => make("tr", {}, ...texts.map((text) => make(tag, { textContent: text })));
    const head = cells("th", ["Way to finish", "Answers", "At most", "Time", "Promised"]);
    const table = make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows.map((each) => cells("td", each))));
    body.replaceChildren(paragraph(sentence), make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Ways to finish" }, table), paragraph(`${note} A forecast, not a promise.`, "hint"));
  };
  return make("details", { className: "card", ontoggle: (event) => event.target.open && show() }, make("summary", { textContent: "Answers until the dataset is finished" }), body);
}

function wishButton({ max_error: maxError, n_labels: n, n_wrong: wrong, n_checks: checks }, j, journey) {
  return make(
    "button",
    { type: "button", className: "choice", onclick: () => makeWish(journey, maxError, checks) },
    make("b", { textContent: `At most ${percent(maxError)}` }),
    make("span", { textContent: `${formatNumber(wrong)} of ${plural(n, "label")} may be wrong` }),
    make("span", { className: "hint", textContent: `${plural(checks, "check")}, about ${minutes(checks, j.label_seconds)}` }),
  );
}

function ownWish(j, journey) {
  const input = make("input", { id: "own-wish", type: "number", min: "0.01", max: "99", step: "any", inputMode: "decimal" });
  const said = make("p", { className: "hint", role: "status" });
  const ask = button("Choose", async () => {
    const maxError = Number(input.value) / 100;
    try {
      const { n_checks: checks } = await get("wish", { max_error: maxError });
      await makeWish(journey, maxError, checks);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      said.textContent = error.message;
    }
  });
  return make("div", { className: "field-row" }, make("label", { htmlFor: "own-wish", textContent: "Another limit, in percent" }), input, ask, said);
}

async function makeWish(journey, maxError, n) {
  journey.isChoosing = false;
  const { wish: before, is_certified: isCertified } = journey.facts;
  if (isCertified && before?.max_error === maxError) notify("You have checked that limit already: choose another one.");
  else if (await journey.change("plan/wish", { max_error: maxError, n })) await journey.show("wish");
}

// Done

function done(j, journey) {
  const parts = [title(j.n_left ? "The result so far" : "Done")];
  parts.push(
    facts(
      ["Images", formatNumber(j.n_images)],
      ["Labeled by people", formatNumber(j.n_human)],
      ...(j.n_copied ? [["Exact copies of those", formatNumber(j.n_copied)]] : []),
      ["Labeled by the run", formatNumber(j.n_labeled)],
      ["None of the classes", formatNumber(j.n_none)],
      ["Left without a label", formatNumber(j.n_left)],
    ),
  );
  const promise = j.promise.length ? j.promise : [j.n_labeled ? "No promise: nothing was checked." : "Every label is by a person."];
  parts.push(card(make("h3", { textContent: "What is promised, and on what evidence" }), ...promise.map((text) => paragraph(text))));
  parts.push(classTable(j));
  parts.push(exportCard(j, journey));
  parts.push(nextCard(j));
  if (j.n_left) parts.push(row(button("Label what is left", () => journey.go(j.rounds ? "finish" : "labels"))));
  return parts;
}

function classTable(j) {
  const cells = (tag, texts) => make("tr", {}, ...texts.map((text) => make(tag, { textContent: text })));
  const rows = j.classes.map(({ name, n }) => cells("td", [name, formatNumber(n), formatNumber(j.counts[name]?.labeled ?? 0)]));
  const head = cells("th", ["Class", "By people", "By the run"]);
  return make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Labels by class" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}

function exportCard(j, journey) {
  const said = make("p", { id: "export-said", role: "status", className: "path", textContent: journey.exported });
  const say = (text) => {
    journey.exported = text;
    byId("export-said").textContent = text; // the step may have been shown again meanwhile
  };
  const items = j.formats.map(({ name, text, is_file: isFile }) => {
    const write = button("Write", async () => {
      say("Writing…");
      const result = await journey.send("export", { to: name });
      const text = result
        ? `Wrote ${plural(result.images, "image")} to ${result.out}.${result.missing ? ` ${formatNumber(result.missing)} are missing: see missing.csv there.` : ""}`
        : "";
      say(text);
    }, { "aria-label": `Write ${name}` });
    const load = isFile ? [make("a", { className: "quiet", href: `/download/${name}`, download: "", textContent: "Download", "aria-label": `Download ${name}` })] : [];
    return make("li", {}, make("span", {}, make("b", { textContent: name }), make("small", { textContent: text })), ...load, write);
  });
  return card(make("h3", { textContent: "Export" }), make("ul", { className: "exports" }, ...items), said);
}

function nextCard(j) {
  const parts = [make("h3", { textContent: "What next" })];
  if (j.has_report) parts.push(make("p", {}, make("a", { href: "/report", download: "report.html", textContent: "Download the report" }), " with figures on every round."));
  if (j.rounds) parts.push(make("p", {}, "Label other images with this model: ", make("code", { textContent: `surelabel predict ${j.path} NEW-IMAGES` })));
  parts.push(make("p", {}, "Add images and train again: ", make("code", { textContent: `surelabel add ${j.path} --images MORE-IMAGES` })));
  parts.push(make("p", {}, "Come back to this page: ", make("code", { textContent: `surelabel start ${j.path}` })));
  return card(...parts);
}

export const guideViews = { look, classes, train, wish, done };
