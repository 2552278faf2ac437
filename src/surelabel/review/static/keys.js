// One key for each class, and the keys of the commands.

const COMMANDS = new Set(["g", "q", "s", "t", "u", "x"]);
const DIGITS = [..."1234567890"];
const LETTERS = [..."abcdefghijklmnopqrstuvwyz"].filter((letter) => !COMMANDS.has(letter));
const KEYS = [...DIGITS, ...LETTERS];

/** The key of the class at `place`, or "" when it has to be typed. */
export const keyOf = (place) => KEYS[place] ?? "";

/** Calls `commands[key]`, or `pick(place)` for the key of a class, or `type(letter)`. */
export function listen({ commands, classCount, pick, type }) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.target.matches("input, select, textarea")) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const onControl = event.target.closest("button, summary, a, [role=button]");
    if (onControl && (key === " " || key === "Enter") && !event.target.closest("[data-keys]")) {
      if (!event.target.matches("body")) return;
    }
    const command = commands[key];
    if (command) {
      if (event.repeat && !key.startsWith("Arrow")) return;
      if (command(event) !== false) event.preventDefault();
      return;
    }
    const place = KEYS.indexOf(key);
    if (place < 0 || event.repeat) return;
    event.preventDefault();
    if (place < classCount()) pick(place);
    else if (LETTERS.includes(key)) type(key);
  });
}
