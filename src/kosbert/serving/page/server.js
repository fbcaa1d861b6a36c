// Everything that is said to the server goes through here: the key, waiting when it is busy, noticing when it is gone.

/** Why a request failed: the server's own sentence in `message`, or the page's in `key` with its `values`. */
export class Problem extends Error {
  constructor(status, { message = "", code = "", key = "", values = {} } = {}) {
    super(message);
    Object.assign(this, { status, code, key, values });
  }

  /** Whether the server cannot be reached now, or not yet. */
  get gone() { return this.status === 0 || this.status === 503; }
}

/** "gone" and "back" when the server goes and returns, "key" when it asks for one, "known" when it has told of itself. */
export const events = new EventTarget();
const KEY = "kosbert-key";
let key = recalled();
let info = null;

function recalled() {
  try { return sessionStorage.getItem(KEY) ?? ""; } catch { return ""; } // storage may be switched off
}

export const hasKey = () => key !== "";
export const known = () => info;

/** Keep the key for this tab only; it is never in an address and never in lasting storage. */
export function setKey(value) {
  key = value;
  try { sessionStorage.setItem(KEY, value); } catch { /* then it lives as long as the page */ }
}

export async function loadInfo() {
  info = await ask("info");
  events.dispatchEvent(new Event("known"));
}

/**
 * Ask the server, by POST when there is a body. When it is too busy (429), wait as long as it says and ask again:
 * `waiting(seconds)` is called before. Throws a Problem; or the signal's reason once it is aborted.
 */
export async function ask(path, body, { signal, waiting = () => {} } = {}) {
  const text = body === undefined ? undefined : JSON.stringify(body);
  const most = info?.limits?.body_bytes;
  if (text && most && new TextEncoder().encode(text).length > most) {
    throw new Problem(413, { key: "bodyTooLarge", values: { bytes: most } });
  }
  for (;;) {
    const answer = await send(path, text, signal);
    if (answer.ok) return content(answer, signal);
    if (answer.status === 429) {
      const seconds = Math.min(60, Math.max(1, Math.ceil(Number(answer.headers.get("Retry-After")) || 1)));
      waiting(seconds);
      await pause(seconds * 1000, signal);
      continue;
    }
    const problem = await problemOf(answer);
    if (problem.status === 401) events.dispatchEvent(new Event("key"));
    if (problem.gone) whenBack();
    throw problem;
  }
}

async function send(path, text, signal) {
  const headers = { Accept: "application/json" };
  if (text !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers.Authorization = `Bearer ${key}`;
  try {
    return await fetch(path, { method: text === undefined ? "GET" : "POST", headers, body: text, signal, cache: "no-store" });
  } catch (error) {
    if (signal?.aborted) throw error;
    // A key with characters that no header can carry is a wrong key, not a lost server.
    if (error instanceof TypeError && /[^\x20-\x7e]/.test(key)) {
      events.dispatchEvent(new Event("key"));
      throw new Problem(401);
    }
    whenBack();
    throw new Problem(0);
  }
}

async function content(answer, signal) {
  try {
    return await answer.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    whenBack(); // it went away in the middle of its answer
    throw new Problem(0);
  }
}

async function problemOf(answer) {
  try {
    const { error } = await answer.json();
    return new Problem(answer.status, { message: String(error?.message ?? ""), code: String(error?.code ?? "") });
  } catch {
    return new Problem(answer.status); // a proxy in between may answer with something else
  }
}

export function pause(milliseconds, signal) {
  return new Promise((done, fail) => {
    if (signal?.aborted) { fail(signal.reason); return; }
    const stop = () => { clearTimeout(timer); fail(signal.reason); };
    const timer = setTimeout(() => { signal?.removeEventListener("abort", stop); done(); }, milliseconds);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

let returning = null;

/** Resolves when the server is ready again; one loop asks for all who wait, ever more slowly up to 10 seconds. */
export function whenBack() {
  returning ??= (async () => {
    events.dispatchEvent(new Event("gone"));
    for (let seconds = 1; !(await ready(seconds)); seconds = Math.min(10, seconds * 1.5));
    returning = null;
    events.dispatchEvent(new Event("back"));
  })();
  return returning;
}

async function ready(seconds) {
  await pause(seconds * 1000);
  try { return (await fetch("ready", { cache: "no-store" })).ok; } catch { return false; }
}
