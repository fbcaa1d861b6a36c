// Heatmap tab: the cosine similarities of several sentences as a colored table.

import { ApiError, callApi } from "./api.js";
import { announce, byId, create, debounce, latestOnly, show } from "./dom.js";
import { showBusy, showError } from "./errors.js";
import { formatDecimal, t } from "./strings.js";

const EXAMPLES = [
  "배송이 언제 도착하나요?",
  "환불을 받고 싶어요.",
  "주문한 물건이 아직 안 왔어요.",
  "오늘은 날씨가 참 좋다.",
  "결제한 돈을 돌려주세요.",
  "하늘이 맑고 바람이 시원하다.",
  "아이가 강아지와 공원에서 논다.",
];
const MAX_SENTENCES = 50;
let sentences = [];
let cosines = null;
let lastError = null;

const field = byId("sentences");
const lines = () => field.value.split("\n").map(line => line.trim()).filter(Boolean);

const run = latestOnly(async signal => {
  const input = lines();
  byId("heatmap-count").textContent = t("heatmapCount", { count: input.length });
  lastError = input.length < 2 ? new ApiError(400, { key: "heatmapTooFew" })
    : input.length > MAX_SENTENCES ? new ApiError(400, { key: "heatmapTooMany", values: { count: input.length } }) : null;
  if (lastError) {
    cosines = null;
    render();
    return;
  }
  byId("heatmap-result").setAttribute("aria-busy", "true");
  try {
    const response = await callApi("compare", { sentences: input }, { signal, onBusy: seconds => showBusy(byId("heatmap-error"), seconds) });
    [sentences, cosines] = [input, response.cosines];
    announce(closestText());
  } catch (error) {
    if (signal.aborted) return;
    lastError = error;
    cosines = null;
  }
  render();
});
const runSoon = debounce(run, 450);

export function start() { return runSoon.now(); }

/** All pairs as [row, column, cosine]. */
function pairs() {
  return sentences.flatMap((_, row) => sentences.slice(row + 1).map((_, step) => [row, row + 1 + step, cosines[row][row + 1 + step]]));
}

const closestPair = () => pairs().reduce((best, pair) => pair[2] > best[2] ? pair : best);

function closestText() {
  const [row, column, cosine] = closestPair();
  return t("heatmapClosest", { first: row + 1, second: column + 1, cosine: formatDecimal(cosine, 2) });
}

/** Order with similar sentences side by side: start with the closest pair and extend the chain at its better end. */
function chainOrder() {
  const chain = closestPair().slice(0, 2);
  const remaining = new Set(sentences.keys());
  for (const index of chain) remaining.delete(index);
  while (remaining.size) {
    let best = null;
    for (const index of remaining) {
      for (const end of [0, chain.length - 1]) {
        const cosine = cosines[index][chain[end]];
        if (best === null || cosine > best.cosine) best = { index, end, cosine };
      }
    }
    remaining.delete(best.index);
    if (best.end === 0) chain.unshift(best.index); else chain.push(best.index);
  }
  return chain;
}

export function render() {
  byId("heatmap-count").textContent = t("heatmapCount", { count: lines().length });
  showError(byId("heatmap-error"), lastError);
  const result = byId("heatmap-result");
  result.removeAttribute("aria-busy");
  show(result, cosines !== null);
  if (cosines === null) return;
  const order = byId("reorder").checked ? chainOrder() : [...sentences.keys()];
  const values = pairs().map(([, , cosine]) => cosine); // without the diagonal
  const low = Math.min(...values), high = Math.max(...values);
  const share = cosine => Math.max(0, Math.min(1, (cosine - low) / Math.max(1e-6, high - low)));
  const head = create("tr", {}, create("th", { scope: "col", text: t("heatmapCorner") }),
    ...order.map(column => create("th", { scope: "col", text: String(column + 1), title: sentences[column] })));
  const rows = order.map(row => create("tr", {},
    create("th", { scope: "row", title: sentences[row] }, create("b", { text: String(row + 1) }), create("span", { lang: "ko", text: sentences[row] })),
    ...order.map(column => create("td", {
      class: row === column ? "diagonal" : undefined, text: formatDecimal(cosines[row][column], 2),
      style: { "--share": `${Math.round(share(cosines[row][column]) * 100)}%` },
    }))));
  byId("heatmap-table").replaceChildren(create("thead", {}, head), create("tbody", {}, ...rows));
  byId("heatmap-closest").textContent = closestText();
  byId("heatmap-low").textContent = formatDecimal(low, 2);
  byId("heatmap-high").textContent = formatDecimal(high, 2);
}

export function setup() {
  field.value = EXAMPLES.join("\n");
  field.addEventListener("input", runSoon);
  byId("reorder").addEventListener("change", render);
}
