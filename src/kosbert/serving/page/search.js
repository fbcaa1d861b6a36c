// Search in the mounted index as the user types.

import { announce, debounced, get, latest, make, show } from "./dom.js";
import { tell, tellBusy } from "./problems.js";
import { ask, known } from "./server.js";
import { decimal, say } from "./words.js";

const EXAMPLE = "요즘 날씨가 어때요?";
let hits = null;
let problem = null;
let why = () => {};

const query = get("query"), filter = get("filter"), hybrid = get("hybrid");

const run = latest(async signal => {
  const wanted = query.value.trim();
  if (!known()?.index || !wanted) {
    hits = problem = null;
    draw();
    return;
  }
  get("hits").setAttribute("aria-busy", "true");
  try {
    const body = { query: wanted, k: 10, filter: filter.value.trim(), hybrid: hybrid.checked };
    ({ hits } = await ask("search", body, { signal, waiting: seconds => tellBusy(get("search-problem"), seconds) }));
    problem = null;
    announce(hits.length ? say("searchFound", { count: hits.length }) : say("searchNothing"));
  } catch (error) {
    if (signal.aborted) return;
    [problem, hits] = [error, null];
  }
  draw();
});
const soon = debounced(run, 200);

export function start() { return soon.now(); }

export function draw() {
  const index = known()?.index ?? null;
  show(get("search-form"), index !== null);
  show(get("filter-field"), Boolean(index?.fields?.length));
  show(get("hybrid-field"), Boolean(index?.hybrid));
  tell(get("search-problem"), problem);
  const lead = get("search-lead");
  if (index === null) {
    if (known()) noIndex(lead, get("search-empty"));
    get("hits").replaceChildren();
    return;
  }
  lead.textContent = say("searchLead", { count: index.sentences });
  if (index.fields?.length) {
    const example = `${index.fields[0]}=${say("filterOther")}`;
    get("filter-note").textContent = say("filterNote", { fields: index.fields.join(", "), example });
    filter.placeholder = example;
  }
  const empty = get("search-empty");
  show(empty, hits !== null && !hits.length);
  empty.textContent = say("searchNothing");
  const list = get("hits");
  list.removeAttribute("aria-busy");
  list.replaceChildren(...(hits ?? []).map(drawHit));
}

/** Where there is no index: how to get one. */
export function noIndex(lead, place) {
  lead.textContent = say("searchNone");
  const [file, index] = [say("sampleFile"), say("sampleIndex")];
  place.replaceChildren(make("code", { text: `kosbert index build ${file} --out ${index} --hybrid` }),
    make("code", { text: `kosbert serve --index ${index}` }));
  show(place);
}

function drawHit(hit) {
  const cosine = Number.isFinite(hit.cosine) ? hit.cosine : hit.score;
  const metadata = Object.entries(hit.metadata ?? {}).filter(([, value]) => value !== null && value !== "");
  return make("li", {},
    make("span", { class: "score", style: { "--share": `${Math.max(0, Math.min(1, cosine)) * 100}%` }, text: decimal(cosine, 3) }),
    make("div", {},
      make("p", { lang: "ko", text: hit.text }),
      metadata.length ? make("ul", { class: "chips" }, ...metadata.map(([name, value]) => make("li", {},
        make("b", { text: name }), document.createTextNode(` ${typeof value === "object" ? JSON.stringify(value) : value}`)))) : null),
    make("button", { type: "button", class: "quiet", text: say("why"), "aria-label": say("whySaid", { text: hit.text }),
      on: { click: () => why(query.value.trim(), hit.text) } }));
}

/** `explain(query, text)` is called when the user asks why a sentence was found. */
export function prepare(explain) {
  why = explain;
  query.value = EXAMPLE;
  query.addEventListener("input", soon);
  filter.addEventListener("input", debounced(run, 500));
  hybrid.addEventListener("change", () => soon.now());
}
