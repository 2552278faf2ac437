// Helpers for the document. Text is always text: nothing here reads HTML.

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

export function button(text, onclick, properties = {}) {
  return make("button", { type: "button", className: "quiet", textContent: text, onclick, ...properties });
}

export const formatNumber = (value) => value.toLocaleString("en-US");

export function plural(count, noun) {
  return `${formatNumber(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Close `dialog`. Otherwise a field in it would keep the focus until the page is next painted. */
export function closeDialog(dialog) {
  dialog.close();
  if (dialog.contains(document.activeElement)) document.activeElement.blur();
}

let noticeTimer = 0;

/** Show a message for a few seconds, also to screen readers, after one that is still shown. */
export function notify(message) {
  const notice = byId("notice");
  const shown = notice.classList.contains("shown") ? notice.textContent : "";
  const text = shown && !shown.endsWith(message) ? `${shown} ${message}` : message;
  notice.textContent = text;
  notice.classList.add("shown");
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => notice.classList.remove("shown"), Math.max(2500, text.length * 60));
}
