// Error messages: the page's own text in the user's language, then the server's message.

import { ApiError } from "./api.js";
import { announce, create } from "./dom.js";
import { t } from "./strings.js";

const STATUSES_WITH_TEXT = [400, 401, 404, 413, 504];

/** Return [the page's text, the server's message or ""]. */
export function errorTexts(error) {
  if (error.key) return [t(error.key, error.values), ""];
  const status = STATUSES_WITH_TEXT.includes(error.status) ? error.status : error.status < 500 ? 400 : "";
  return [t(`error${status}`), error.message];
}

/** Show an error in a box; null clears it. Offline and missing-key errors are shown at the top of the page instead. */
export function showError(box, error) {
  if (error !== null && !(error instanceof ApiError)) throw error;
  if (error === null || error.offline || error.status === 401) {
    box.replaceChildren();
    return;
  }
  const [text, serverMessage] = errorTexts(error);
  box.replaceChildren(create("p", { text }));
  if (serverMessage) box.append(create("p", { class: "server-message", lang: "en", text: serverMessage }));
  if (box.offsetParent) announce(`${text} ${serverMessage}`); // only in the open tab
}

/** Show in a box that the server is busy. */
export function showBusy(box, seconds) {
  const text = t("busy", { seconds });
  box.replaceChildren(create("p", { text }));
  announce(text);
}
