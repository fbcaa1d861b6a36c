// Entry point: tabs, language, API key, connection state. Each tab has its own module.

import { ApiError, events, hasKey, loadInfo, serverInfo, setKey } from "./api.js";
import * as clusters from "./clusters.js";
import * as compare from "./compare.js";
import { announce, byId, rovingTabindex, show } from "./dom.js";
import { errorTexts } from "./errors.js";
import * as file from "./file.js";
import * as heatmap from "./heatmap.js";
import * as search from "./search.js";
import { otherLanguage, setLanguage, t, translateDocument } from "./strings.js";

const panels = { compare, heatmap, search, clusters, file };
const tabs = byId("tabs");
// The URL has the tab as #/heatmap, not #heatmap: the browser would scroll to that element and move the focus there.
const tabOfUrl = () => Object.keys(panels).find(name => location.hash === `#/${name}`) ?? "compare";
let activeTab = tabOfUrl();
let connectionText = null; // function that returns the text of the notice at the top; null while online

function openTab(name) {
  activeTab = name;
  for (const panel of Object.keys(panels)) {
    const tab = byId(`tab-${panel}`);
    tab.setAttribute("aria-selected", String(panel === name));
    tab.tabIndex = panel === name ? 0 : -1;
    show(byId(panel), panel === name);
  }
  if (tabOfUrl() !== name) history.replaceState(null, "", `#/${name}`);
  if (serverInfo()) panels[name].start();
}

function render() {
  translateDocument();
  const button = byId("language");
  button.textContent = otherLanguage() === "ko" ? "한국어" : "English";
  button.lang = otherLanguage();
  document.title = `kosbert · ${t("tagline")}`;
  const connection = byId("connection");
  show(connection, connectionText !== null);
  connection.textContent = connectionText ? connectionText() : "";
  const info = serverInfo();
  show(byId("report"), Boolean(info?.report));
  show(byId("change-key"), Boolean(info?.requires_key));
  byId("about").textContent = info
    ? t("about", { model: info.model, dimensions: info.dimensions, length: info.max_length, backend: info.backend, version: info.version }) : "";
  for (const panel of Object.values(panels)) panel.render();
}

/** Load the server's info, then start the active tab; return whether that worked. */
async function connect() {
  try {
    await loadInfo();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status !== 401 && !error.offline) connectionText = () => errorTexts(error).join(" ");
    render();
    return false;
  }
  show(byId("key-form"), false);
  render();
  panels[activeTab].start();
  return true;
}

function showKeyForm(note) {
  show(byId("key-form"));
  byId("key-note").textContent = t(note);
  byId("key").focus();
}

events.addEventListener("offline", () => { connectionText = () => t("offline"); render(); });
events.addEventListener("online", () => { connectionText = null; announce(t("online")); connect(); });
events.addEventListener("key-required", () => showKeyForm(hasKey() ? "keyInvalid" : "keyRequired"));

byId("key-form").addEventListener("submit", async event => {
  event.preventDefault();
  setKey(byId("key").value.trim());
  if (await connect()) {
    byId("key").value = "";
    byId(`tab-${activeTab}`).focus();
  }
});
byId("change-key").addEventListener("click", () => showKeyForm("keyRequired"));
byId("language").addEventListener("click", () => {
  setLanguage(otherLanguage());
  render();
  if (!byId("key-form").hidden) byId("key-note").textContent = t(hasKey() ? "keyInvalid" : "keyRequired");
});
tabs.addEventListener("click", event => {
  const tab = event.target.closest("[role=tab]");
  if (tab) openTab(tab.getAttribute("aria-controls"));
});
window.addEventListener("hashchange", () => openTab(tabOfUrl()));
rovingTabindex(tabs, "[role=tab]", tab => openTab(tab.getAttribute("aria-controls")));

compare.setup();
heatmap.setup();
search.setup((query, text) => {
  openTab("compare");
  compare.compare(query, text);
  byId("tab-compare").focus();
});
clusters.setup();
file.setup();
openTab(activeTab);
render();
connect();
