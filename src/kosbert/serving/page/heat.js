// A handful of sentences: every cosine in a table whose cells are tinted.

import { announce, debounced, get, latest, make, show } from "./dom.js";
import { tell, tellBusy } from "./problems.js";
import { Problem, ask } from "./server.js";
import { decimal, say } from "./words.js";

const EXAMPLES = [
  "배송이 언제 도착하나요?",
  "환불을 받고 싶어요.",
  "주문한 물건이 아직 안 왔어요.",
  "오늘은 날씨가 참 좋다.",
  "결제한 돈을 돌려주세요.",
  "하늘이 맑고 바람이 시원하다.",
  "아이가 강아지와 공원에서 논다.",
];
const MOST = 50;
let sentences = [];
let cosines = null;
let problem = null;

const field = get("sentences");
const lines = () => field.value.split("\n").map(line => line.trim()).filter(Boolean);

const run = latest(async signal => {
  const wanted = lines();
  get("heat-count").textContent = say("heatCount", { count: wanted.length });
  problem = wanted.length < 2 ? new Problem(400, { key: "heatFew" })
    : wanted.length > MOST ? new Problem(400, { key: "heatMany", values: { count: wanted.length } }) : null;
  if (problem) {
    cosines = null;
    draw();
    return;
  }
  get("heat-result").setAttribute("aria-busy", "true");
  try {
    const answer = await ask("compare", { sentences: wanted }, { signal, waiting: seconds => tellBusy(get("heat-problem"), seconds) });
    [sentences, cosines] = [wanted, answer.cosines];
    const [one, two, best] = closest();
    announce(say("heatNote", { one: one + 1, two: two + 1, cosine: decimal(best, 2) }));
  } catch (error) {
    if (signal.aborted) return;
    problem = error;
    cosines = null;
  }
  draw();
});
const soon = debounced(run, 450);

export function start() { return soon.now(); }

function pairs() {
  return sentences.flatMap((_, one) => sentences.slice(one + 1).map((_, step) => [one, one + 1 + step, cosines[one][one + 1 + step]]));
}

const closest = () => pairs().reduce((best, each) => each[2] > best[2] ? each : best);

/** Start with the closest pair and let the chain grow at either end by whatever is nearest to that end. */
function gathered() {
  const chain = closest().slice(0, 2);
  const rest = new Set(sentences.keys());
  for (const each of chain) rest.delete(each);
  while (rest.size) {
    let best = null;
    for (const each of rest) {
      for (const end of [0, chain.length - 1]) {
        const cosine = cosines[each][chain[end]];
        if (best === null || cosine > best.cosine) best = { each, end, cosine };
      }
    }
    rest.delete(best.each);
    if (best.end === 0) chain.unshift(best.each); else chain.push(best.each);
  }
  return chain;
}

export function draw() {
  get("heat-count").textContent = say("heatCount", { count: lines().length });
  tell(get("heat-problem"), problem);
  const result = get("heat-result");
  result.removeAttribute("aria-busy");
  show(result, cosines !== null);
  if (cosines === null) return;
  const order = get("gather").checked ? gathered() : [...sentences.keys()];
  const values = pairs().map(each => each[2]);
  const low = Math.min(...values), high = Math.max(...values); // a sentence with itself is left out of the tints
  const share = cosine => Math.max(0, Math.min(1, (cosine - low) / Math.max(1e-6, high - low)));
  const head = make("tr", {}, make("th", { scope: "col", text: say("heatCorner") }),
    ...order.map(column => make("th", { scope: "col", text: String(column + 1), title: sentences[column] })));
  const rows = order.map(row => make("tr", {},
    make("th", { scope: "row", title: sentences[row] }, make("b", { text: String(row + 1) }), make("span", { lang: "ko", text: sentences[row] })),
    ...order.map(column => make("td", {
      class: row === column ? "self" : undefined, text: decimal(cosines[row][column], 2),
      style: { "--share": `${Math.round(share(cosines[row][column]) * 100)}%` },
    }))));
  get("heat-table").replaceChildren(make("thead", {}, head), make("tbody", {}, ...rows));
  const [one, two, best] = closest();
  get("heat-note").textContent = say("heatNote", { one: one + 1, two: two + 1, cosine: decimal(best, 2) });
  get("heat-low").textContent = decimal(low, 2);
  get("heat-high").textContent = decimal(high, 2);
}

export function prepare() {
  field.value = EXAMPLES.join("\n");
  field.addEventListener("input", soon);
  get("gather").addEventListener("change", draw);
}
