// Talks to the server. An answer that never came is told apart from one that said no. Who was told
// to come in again, or met a fault of the server, has not been told no: what was asked is kept.

/** The server understood and refused; the message is a sentence for people. */
export class Refused extends Error {}

export const client = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) =>
  byte.toString(16).padStart(2, "0"),
).join("");

async function ask(path, options) {
  const response = await fetch(path, { credentials: "same-origin", ...options });
  const json = (response.headers.get("content-type") ?? "").includes("json");
  const body = json ? await response.json() : await response.text();
  if (response.ok) return body;
  const detail = json ? body.detail : body;
  if (response.status === 403 || response.status >= 500) throw new Error(String(detail));
  throw new Refused(typeof detail === "string" ? detail : "The server did not understand the page.");
}

export const get = (path, query = {}) => ask(`/api/${path}?${new URLSearchParams(query)}`);

export const post = (path, body = {}) =>
  ask(`/api/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
