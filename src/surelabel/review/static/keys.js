// One key for each class, and the keys of the commands.

const COMMANDS = new Set(["g", "q", "s", "t", "u", "x"]);
const DIGITS = [..."1234567890"];
const LETTERS = [..."abcdefghijklmnopqrstuvwyz"].filter((letter) => !COMMANDS.has(letter));
const KEYS = [...DIGITS, ...LETTERS];

/**
 * The key of each class, "" where its name has to be typed. A class whose name is a key has that
 * key, so that 4 is 4; the others take what is free, in order.
 */
export function keysFor(names) {
  const taken = new Set();
  const own = names.map((name) => {
    const key = name.toLowerCase();
    if (!KEYS.includes(key) || taken.has(key)) return "";
    taken.add(key);
    return key;
  });
  const free = KEYS.filter((key) => !taken.has(key));
  return own.map((key) => key || (free.shift() ?? ""));
}

/** Calls `commands[key]`, or `pick(name)` for the key of a class, or `type(letter)`. */
export function listen({ commands, classNames, pick, type }) {
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
    if (!KEYS.includes(key) || event.repeat) return;
    event.preventDefault();
    const names = classNames();
    const place = keysFor(names).indexOf(key);
    if (place >= 0) pick(names[place]);
    else if (LETTERS.includes(key)) type(key);
  });
}
