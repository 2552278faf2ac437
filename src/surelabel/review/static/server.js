// The connection to the server: requests, delivery of answers, events.

const RETRY_MS = 1000;

/** A name for this page, so that it can tell its own events from those of others. */
export const client = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) =>
  byte.toString(16).padStart(2, "0"),
).join("");

/**
 * The server understood the request and refused it; the message is a sentence for people. A lost
 * connection, an expired cookie or a fault of the server are other errors: there it makes sense
 * to try again.
 */
export class Refused extends Error {}

async function request(path, options) {
  const response = await fetch(path, { credentials: "same-origin", ...options });
  const isJson = (response.headers.get("content-type") ?? "").includes("json");
  const body = isJson ? await response.json() : await response.text();
  if (response.ok) return body;
  const detail = isJson ? body.detail : body;
  if (response.status === 403 || response.status >= 500) throw new Error(String(detail));
  throw new Refused(typeof detail === "string" ? detail : "The server did not understand the page.");
}

export const get = (path, query = {}) => request(`/api/${path}?${new URLSearchParams(query)}`);

export const post = (path, body = {}) =>
  request(`/api/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });

/** Call `handlers[name](data)` for each event, and `onReconnect` after a lost connection. */
export function listenToEvents(handlers, onReconnect) {
  const events = new EventSource("/api/events");
  for (const [name, handle] of Object.entries(handlers)) {
    events.addEventListener(name, (event) => handle(JSON.parse(event.data)));
  }
  let connectedBefore = false;
  events.addEventListener("hello", () => {
    if (connectedBefore) onReconnect();
    connectedBefore = true;
  });
}

/** Sends answers one after the other, in the order given, until each is acknowledged. */
export class Outbox {
  #tail = Promise.resolve();
  #onChange;
  size = 0;
  offline = false;

  /** `onChange(outbox)` is called when `size` or `offline` changes. */
  constructor(onChange) {
    this.#onChange = onChange;
    addEventListener("beforeunload", (event) => {
      if (this.size) event.preventDefault();
    });
    onChange(this);
  }

  /** Resolves when everything added so far is acknowledged or refused. */
  get idle() {
    return this.#tail;
  }

  /** Run `send` after all before it, again and again while the connection is lost. */
  add(send) {
    this.#resize(1);
    const sent = this.#tail.then(() => this.#retry(send)).finally(() => this.#resize(-1));
    this.#tail = sent.catch(() => {});
    return sent;
  }

  async #retry(send) {
    for (;;) {
      try {
        const result = await send();
        this.#setOffline(false);
        return result;
      } catch (error) {
        this.#setOffline(!(error instanceof Refused));
        if (error instanceof Refused) throw error;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  #setOffline(offline) {
    this.offline = offline;
    this.#onChange(this);
  }

  #resize(change) {
    this.size += change;
    this.#onChange(this);
  }
}
