// What the user sees when something fails: what it means in their language, then the server's own sentence.

import { announce, make } from "./dom.js";
import { Problem } from "./server.js";
import { say } from "./words.js";

const NAMED = [400, 401, 404, 413, 504];

/** The words for a problem: one line of the page's, and the server's sentence where there is one. */
export function wordsOf(problem) {
  if (problem.key) return [say(problem.key, problem.values), ""];
  const status = NAMED.includes(problem.status) ? problem.status : problem.status < 500 ? 400 : "";
  return [say(`problem${status}`), problem.message];
}

/** Show a problem in a box, or clear it with null. One that the line at the top tells already is not told twice. */
export function tell(box, problem) {
  if (problem !== null && !(problem instanceof Problem)) throw problem;
  if (problem === null || problem.gone || problem.status === 401) {
    box.replaceChildren();
    return;
  }
  const [own, theirs] = wordsOf(problem);
  box.replaceChildren(make("p", { text: own }));
  if (theirs) box.append(make("p", { class: "theirs", lang: "en", text: theirs }));
  if (box.offsetParent) announce(`${own} ${theirs}`); // not for a tab that is not open
}

/** Say in a box that the server is busy and for how long. */
export function tellBusy(box, seconds) {
  const words = say("busy", { seconds });
  box.replaceChildren(make("p", { text: words }));
  announce(words);
}
