// Two sentences: their cosine, and what each word did for it.

import { announce, debounced, get, latest, make, rove, show } from "./dom.js";
import { tell, tellBusy } from "./problems.js";
import { ask } from "./server.js";
import { decimal, say } from "./words.js";

const EXAMPLES = [
  ["아이가 공원에서 강아지와 놀고 있다.", "공원에서 어린이가 개와 뛰어논다."],
  ["배송이 너무 늦어서 환불하고 싶어요.", "물건이 아직 안 와서 돈을 돌려받고 싶습니다."],
  ["오늘 서울에는 비가 많이 온다.", "서울에 폭우가 내리고 있다."],
  ["한 남자가 기타를 연주한다.", "한 여자가 피아노를 친다."],
  ["이 영화는 정말 재미있었다.", "이 영화는 하나도 재미없었다."],
];
const LEAST = 0.05; // effects below it are faint, also where all of them are small
let place = 0;
let answer = null;
let problem = null;

const left = get("left"), right = get("right");

const run = latest(async signal => {
  const [one, two] = [left.value.trim(), right.value.trim()];
  if (!one || !two) {
    answer = problem = null;
    draw();
    return;
  }
  get("compare-result").setAttribute("aria-busy", "true");
  try {
    answer = await ask("explain", { left: one, right: two }, { signal, waiting: seconds => tellBusy(get("compare-problem"), seconds) });
    problem = null;
    announce(say("cosineSaid", { cosine: decimal(answer.cosine, 3) }));
  } catch (error) {
    if (signal.aborted) return;
    problem = error;
    answer = null;
  }
  draw();
});
const soon = debounced(run, 350);

export function start() { return soon.now(); }

/** Compare these two, from another part of the page. */
export function compare(one, two) {
  [left.value, right.value] = [one, two];
  return soon.now();
}

export function draw() {
  tell(get("compare-problem"), problem);
  const result = get("compare-result");
  result.removeAttribute("aria-busy");
  show(result, answer !== null);
  if (answer === null) {
    if (problem === null && !(left.value.trim() && right.value.trim())) {
      get("compare-problem").replaceChildren(make("p", { class: "empty", text: say("compareEmpty") }));
    }
    return;
  }
  const cosine = answer.cosine;
  get("cosine").textContent = decimal(cosine, 3);
  const bar = get("cosine-bar");
  bar.classList.toggle("below", cosine < 0);
  bar.style.setProperty("--share", `${Math.min(1, Math.abs(cosine)) * 100}%`);
  for (const [name, value] of [["min", -1], ["max", 1], ["now", cosine.toFixed(3)]]) bar.setAttribute(`aria-value${name}`, value);
  get("bar-low").textContent = "0";
  get("bar-high").textContent = cosine < 0 ? "\u22121" : "1";
  const most = Math.max(LEAST, ...[...answer.left, ...answer.right].map(each => Math.abs(each.effect)));
  drawWords(get("left-words"), answer.left, most);
  drawWords(get("right-words"), answer.right, most);
  get("word-note").textContent = say("wordNote");
}

function drawWords(list, words, most) {
  list.replaceChildren(...words.map(({ word, effect }, number) => {
    const sentence = say(effect < 0 ? "wordAgainst" : "wordFor", { word, effect: Math.abs(effect).toFixed(3) });
    const explain = () => { get("word-note").textContent = sentence; };
    const back = () => { get("word-note").textContent = say("wordNote"); };
    const button = make(
      "button",
      {
        type: "button", class: effect < 0 ? "word against" : "word", tabindex: number ? -1 : 0,
        style: { "--share": `${Math.round(Math.abs(effect) / most * 60)}%` },
        on: { focus: explain, mouseenter: explain, blur: back, mouseleave: back, click: explain },
      },
      make("span", { text: word }),
      make("small", { text: decimal(effect, 3, { signed: true }) }),
    );
    return make("li", {}, button);
  }));
}

export function prepare() {
  [left.value, right.value] = EXAMPLES[0];
  for (const field of [left, right]) field.addEventListener("input", soon);
  for (const name of ["left-words", "right-words"]) rove(get(name), "button");
  get("another").addEventListener("click", () => compare(...EXAMPLES[++place % EXAMPLES.length]));
}
