// Elements from code. Text is always text: nothing here reads HTML.

export const byId = (id) => document.getElementById(id);

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export const number = (value) => value.toLocaleString("en-US");

export function plural(count, noun) {
  return `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
}

let timer = 0;

/** Say something in passing, to eyes and to screen readers. What is still shown stays before it. */
export function notify(said) {
  const notice = byId("notice");
  const before = notice.classList.contains("shown") ? notice.textContent : "";
  const text = before && !before.endsWith(said) ? `${before} ${said}` : said;
  notice.textContent = text;
  notice.classList.add("shown");
  clearTimeout(timer);
  timer = setTimeout(() => notice.classList.remove("shown"), Math.max(2500, text.length * 60));
}
