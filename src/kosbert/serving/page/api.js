// HTTP client of the server: API key, retry when the server is busy, reconnect when it is offline.

/** A failed request: the server's `message`, or a `key` of strings.js with its `values`. */
export class ApiError extends Error {
  constructor(status, { message = "", code = "", key = "", values = {} } = {}) {
    super(message);
    Object.assign(this, { status, code, key, values });
  }

  /** Whether the server cannot be reached or is not ready. */
  get offline() { return this.status === 0 || this.status === 503; }
}

/** Events: "offline" and "online", "key-required", and "info" after GET /info. */
export const events = new EventTarget();
const STORAGE_KEY = "kosbert-key";
let key = storedKey();
let info = null;

function storedKey() {
  try { return sessionStorage.getItem(STORAGE_KEY) ?? ""; } catch { return ""; } // storage may be disabled
}

export const hasKey = () => key !== "";

/** The response of GET /info; null before the first one. */
export const serverInfo = () => info;

/** Keep the key for this tab only: never in a URL, never in permanent storage. */
export function setKey(value) {
  key = value;
  try { sessionStorage.setItem(STORAGE_KEY, value); } catch { /* the key is lost on reload */ }
}

export async function loadInfo() {
  info = await callApi("info");
  events.dispatchEvent(new Event("info"));
}

/**
 * Send a request (POST if there is a body) and return the parsed response. If the server is busy (429), call
 * `onBusy(seconds)`, wait as long as Retry-After says and try again. Throws ApiError, or the signal's reason if aborted.
 */
export async function callApi(path, body, { signal, onBusy = () => {} } = {}) {
  const text = body === undefined ? undefined : JSON.stringify(body);
  const maxBytes = info?.limits?.max_body_bytes;
  if (text && maxBytes && new TextEncoder().encode(text).length > maxBytes) {
    throw new ApiError(413, { key: "bodyTooLarge", values: { bytes: maxBytes } });
  }
  for (;;) {
    const response = await send(path, text, signal);
    if (response.ok) return parse(response, signal);
    if (response.status === 429) {
      const seconds = Math.min(60, Math.max(1, Math.ceil(Number(response.headers.get("Retry-After")) || 1)));
      onBusy(seconds);
      await sleep(seconds * 1000, signal);
      continue;
    }
    const error = await errorOf(response);
    if (error.status === 401) events.dispatchEvent(new Event("key-required"));
    if (error.offline) whenOnline();
    throw error;
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
    // A key with characters that are not allowed in a header is an invalid key, not an offline server.
    if (error instanceof TypeError && /[^\x20-\x7e]/.test(key)) {
      events.dispatchEvent(new Event("key-required"));
      throw new ApiError(401);
    }
    whenOnline();
    throw new ApiError(0);
  }
}

async function parse(response, signal) {
  try {
    return await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    whenOnline(); // the connection broke during the response
    throw new ApiError(0);
  }
}

async function errorOf(response) {
  try {
    const { error } = await response.json();
    return new ApiError(response.status, { message: String(error?.message ?? ""), code: String(error?.code ?? "") });
  } catch {
    return new ApiError(response.status); // a proxy may send other error bodies
  }
}

export function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) { reject(signal.reason); return; }
    const abort = () => { clearTimeout(timer); reject(signal.reason); };
    const timer = setTimeout(() => { signal?.removeEventListener("abort", abort); resolve(); }, milliseconds);
    signal?.addEventListener("abort", abort, { once: true });
  });
}

let reconnecting = null;

/** Resolve when the server is ready again. All callers share one polling loop with intervals of up to 10 seconds. */
export function whenOnline() {
  reconnecting ??= (async () => {
    events.dispatchEvent(new Event("offline"));
    for (let seconds = 1; !(await isReady(seconds)); seconds = Math.min(10, seconds * 1.5));
    reconnecting = null;
    events.dispatchEvent(new Event("online"));
  })();
  return reconnecting;
}

async function isReady(delaySeconds) {
  await sleep(delaySeconds * 1000);
  try { return (await fetch("ready", { cache: "no-store" })).ok; } catch { return false; }
}
