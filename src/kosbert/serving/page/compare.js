// Compare tab: cosine similarity of two sentences and the effect of each word.

import { callApi } from "./api.js";
import { announce, byId, create, debounce, latestOnly, rovingTabindex, show } from "./dom.js";
import { showBusy, showError } from "./errors.js";
import { formatDecimal, t } from "./strings.js";

const EXAMPLES = [
  ["아이가 공원에서 강아지와 놀고 있다.", "공원에서 어린이가 개와 뛰어논다."],
  ["배송이 너무 늦어서 환불하고 싶어요.", "물건이 아직 안 와서 돈을 돌려받고 싶습니다."],
  ["오늘 서울에는 비가 많이 온다.", "서울에 폭우가 내리고 있다."],
  ["한 남자가 기타를 연주한다.", "한 여자가 피아노를 친다."],
  ["이 영화는 정말 재미있었다.", "이 영화는 하나도 재미없었다."],
];
const MIN_SCALE = 0.05; // keeps small effects faint even if all of them are small
let exampleIndex = 0;
let response = null;
let lastError = null;

const left = byId("left"), right = byId("right");

const run = latestOnly(async signal => {
  const body = { left: left.value.trim(), right: right.value.trim() };
  if (!body.left || !body.right) {
    response = lastError = null;
    render();
    return;
  }
  byId("compare-result").setAttribute("aria-busy", "true");
  try {
    response = await callApi("explain", body, { signal, onBusy: seconds => showBusy(byId("compare-error"), seconds) });
    lastError = null;
    announce(t("cosineResult", { cosine: formatDecimal(response.cosine, 3) }));
  } catch (error) {
    if (signal.aborted) return;
    lastError = error;
    response = null;
  }
  render();
});
const runSoon = debounce(run, 350);

export function start() { return runSoon.now(); }

/** Compare two sentences; called from other tabs. */
export function compare(leftText, rightText) {
  [left.value, right.value] = [leftText, rightText];
  return runSoon.now();
}

export function render() {
  showError(byId("compare-error"), lastError);
  const result = byId("compare-result");
  result.removeAttribute("aria-busy");
  show(result, response !== null);
  if (response === null) {
    if (lastError === null && !(left.value.trim() && right.value.trim())) {
      byId("compare-error").replaceChildren(create("p", { class: "empty", text: t("compareEmpty") }));
    }
    return;
  }
  const { cosine } = response;
  byId("cosine").textContent = formatDecimal(cosine, 3);
  const bar = byId("cosine-bar");
  bar.classList.toggle("negative", cosine < 0);
  bar.style.setProperty("--share", `${Math.min(1, Math.abs(cosine)) * 100}%`);
  for (const [name, value] of [["min", -1], ["max", 1], ["now", cosine.toFixed(3)]]) bar.setAttribute(`aria-value${name}`, value);
  byId("bar-low").textContent = "0";
  byId("bar-high").textContent = cosine < 0 ? "\u22121" : "1";
  const scale = Math.max(MIN_SCALE, ...[...response.left, ...response.right].map(({ effect }) => Math.abs(effect)));
  renderWords(byId("left-words"), response.left, scale);
  renderWords(byId("right-words"), response.right, scale);
  byId("word-note").textContent = t("wordNote");
}

function renderWords(list, words, scale) {
  list.replaceChildren(...words.map(({ word, effect }, index) => {
    const explanation = t(effect < 0 ? "wordAgainst" : "wordFor", { word, effect: Math.abs(effect).toFixed(3) });
    const explain = () => { byId("word-note").textContent = explanation; };
    const reset = () => { byId("word-note").textContent = t("wordNote"); };
    const button = create(
      "button",
      {
        type: "button", class: effect < 0 ? "word against" : "word", tabindex: index ? -1 : 0,
        style: { "--share": `${Math.round(Math.abs(effect) / scale * 60)}%` },
        on: { focus: explain, mouseenter: explain, blur: reset, mouseleave: reset, click: explain },
      },
      create("span", { text: word }),
      create("small", { text: formatDecimal(effect, 3, { signed: true }) }),
    );
    return create("li", {}, button);
  }));
}

export function setup() {
  [left.value, right.value] = EXAMPLES[0];
  for (const field of [left, right]) field.addEventListener("input", runSoon);
  for (const id of ["left-words", "right-words"]) rovingTabindex(byId(id), "button");
  byId("another-example").addEventListener("click", () => compare(...EXAMPLES[++exampleIndex % EXAMPLES.length]));
}
