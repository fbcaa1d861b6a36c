// Search tab: semantic search in the server's index as the user types.

import { callApi, serverInfo } from "./api.js";
import { announce, byId, create, debounce, latestOnly, show } from "./dom.js";
import { showBusy, showError } from "./errors.js";
import { formatDecimal, t } from "./strings.js";

const EXAMPLE = "요즘 날씨가 어때요?";
let hits = null;
let lastError = null;
let explainHit = () => {};

const query = byId("query"), filter = byId("filter"), hybrid = byId("hybrid");

const run = latestOnly(async signal => {
  const text = query.value.trim();
  if (!serverInfo()?.index || !text) {
    hits = lastError = null;
    render();
    return;
  }
  byId("hits").setAttribute("aria-busy", "true");
  try {
    const body = { query: text, k: 10, filter: filter.value.trim(), hybrid: hybrid.checked };
    ({ hits } = await callApi("search", body, { signal, onBusy: seconds => showBusy(byId("search-error"), seconds) }));
    lastError = null;
    announce(hits.length ? t("searchHits", { count: hits.length }) : t("searchNoHits"));
  } catch (error) {
    if (signal.aborted) return;
    [lastError, hits] = [error, null];
  }
  render();
});
const runSoon = debounce(run, 200);

export function start() { return runSoon.now(); }

export function render() {
  const index = serverInfo()?.index ?? null;
  show(byId("search-form"), index !== null);
  show(byId("filter-field"), Boolean(index?.fields?.length));
  show(byId("hybrid-field"), Boolean(index?.hybrid));
  showError(byId("search-error"), lastError);
  const lead = byId("search-lead");
  if (index === null) {
    if (serverInfo()) showNoIndex(lead, byId("search-empty"));
    byId("hits").replaceChildren();
    return;
  }
  lead.textContent = t("searchLead", { count: index.sentences });
  if (index.fields?.length) {
    const example = `${index.fields[0]}=${t("filterValue")}`;
    byId("filter-note").textContent = t("filterNote", { fields: index.fields.join(", "), example });
    filter.placeholder = example;
  }
  const empty = byId("search-empty");
  show(empty, hits !== null && !hits.length);
  empty.textContent = t("searchNoHits");
  const list = byId("hits");
  list.removeAttribute("aria-busy");
  list.replaceChildren(...(hits ?? []).map(renderHit));
}

/** Explain how to build an index. */
export function showNoIndex(lead, box) {
  lead.textContent = t("searchNoIndex");
  box.replaceChildren(create("code", { text: "kosbert index build sentences.csv --out my-index --hybrid" }),
    create("code", { text: "kosbert serve --index my-index" }));
  show(box);
}

function renderHit(hit) {
  const cosine = Number.isFinite(hit.cosine) ? hit.cosine : hit.score;
  const metadata = Object.entries(hit.metadata ?? {}).filter(([, value]) => value !== null && value !== "");
  return create("li", {},
    create("span", { class: "score", style: { "--share": `${Math.max(0, Math.min(1, cosine)) * 100}%` }, text: formatDecimal(cosine, 3) }),
    create("div", {},
      create("p", { lang: "ko", text: hit.text }),
      metadata.length ? create("ul", { class: "chips" }, ...metadata.map(([name, value]) => create("li", {},
        create("b", { text: name }), document.createTextNode(` ${typeof value === "object" ? JSON.stringify(value) : value}`)))) : null),
    create("button", { type: "button", class: "quiet", text: t("why"), "aria-label": t("whyLabel", { text: hit.text }),
      on: { click: () => explainHit(query.value.trim(), hit.text) } }));
}

/** `onExplain(query, text)` is called when the user asks why a sentence was found. */
export function setup(onExplain) {
  explainHit = onExplain;
  query.value = EXAMPLE;
  query.addEventListener("input", runSoon);
  filter.addEventListener("input", debounce(run, 500));
  hybrid.addEventListener("change", () => runSoon.now());
}
