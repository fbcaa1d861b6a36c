// The page: its tabs, its language, the key, and whether the server is there. Each function has its own module.

import * as compare from "./compare.js";
import { announce, get, rove, show } from "./dom.js";
import * as file from "./file.js";
import * as groups from "./groups.js";
import * as heat from "./heat.js";
import { wordsOf } from "./problems.js";
import { Problem, events, hasKey, known, loadInfo, setKey } from "./server.js";
import * as search from "./search.js";
import { choose, other, say, translate } from "./words.js";

const panels = { compare, heat, search, groups, file };
const tabs = get("tabs");
// The address remembers the tab as #/heat, not #heat: the browser would scroll to that element and start the Tab key there.
const named = () => Object.keys(panels).find(name => location.hash === `#/${name}`) ?? "compare";
let open = named();
let line = null; // what the line at the top says, null when the server is there

function openTab(name) {
  open = name;
  for (const each of Object.keys(panels)) {
    const tab = get(`tab-${each}`);
    tab.setAttribute("aria-selected", String(each === name));
    tab.tabIndex = each === name ? 0 : -1;
    show(get(each), each === name);
  }
  if (named() !== name) history.replaceState(null, "", `#/${name}`);
  if (known()) panels[name].start();
}

function draw() {
  translate();
  const button = get("language");
  button.textContent = other() === "ko" ? "한국어" : "English";
  button.lang = other();
  document.title = `kosbert · ${say("tagline")}`;
  const connection = get("connection");
  show(connection, line !== null);
  connection.textContent = line ? line() : "";
  const info = known();
  show(get("report"), Boolean(info?.report));
  show(get("change-key"), Boolean(info?.keys));
  get("about").textContent = info
    ? say("about", { model: info.model, dimensions: info.dimensions, length: info.max_length, backend: info.backend, version: info.version }) : "";
  for (const panel of Object.values(panels)) panel.draw();
}

/** Ask the server what it is, then start the open function. */
async function begin() {
  try {
    await loadInfo();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status !== 401 && !error.gone) line = () => wordsOf(error).join(" ");
    draw();
    return false;
  }
  show(get("key-form"), false);
  draw();
  panels[open].start();
  return true;
}

function askForKey(words) {
  show(get("key-form"));
  get("key-note").textContent = say(words);
  get("key").focus();
}

events.addEventListener("gone", () => { line = () => say("gone"); draw(); });
events.addEventListener("back", () => { line = null; announce(say("back")); begin(); });
events.addEventListener("key", () => askForKey(hasKey() ? "keyWrong" : "keyNeeded"));

get("key-form").addEventListener("submit", async event => {
  event.preventDefault();
  setKey(get("key").value.trim());
  if (await begin()) {
    get("key").value = "";
    get(`tab-${open}`).focus();
  }
});
get("change-key").addEventListener("click", () => askForKey("keyNeeded"));
get("language").addEventListener("click", () => {
  choose(other());
  draw();
  if (!get("key-form").hidden) get("key-note").textContent = say(hasKey() ? "keyWrong" : "keyNeeded");
});
tabs.addEventListener("click", event => {
  const tab = event.target.closest("[role=tab]");
  if (tab) openTab(tab.getAttribute("aria-controls"));
});
window.addEventListener("hashchange", () => openTab(named()));
rove(tabs, "[role=tab]", tab => openTab(tab.getAttribute("aria-controls")));

compare.prepare();
heat.prepare();
search.prepare((query, text) => {
  openTab("compare");
  compare.compare(query, text);
  get("tab-compare").focus();
});
groups.prepare();
file.prepare();
openTab(open);
draw();
begin();
