// The groups of the mounted index on a map: one mark a sentence, near ones close in meaning.

import { announce, get, latest, make, show } from "./dom.js";
import { tell, tellBusy } from "./problems.js";
import { noIndex } from "./search.js";
import { ask, known } from "./server.js";
import { say, whole } from "./words.js";

const COLORS = 8;
const TURNS = 10; // of asking again
const WIDTH = 1000, HEIGHT = 760, MARGIN = 24;
const SVG = "http://www.w3.org/2000/svg";
// Eight colors by four shapes: groups stay apart for those who do not see the colors, and beyond eight.
const SHAPES = [
  (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`,
  (x, y, r) => `M${x - r * 0.9} ${y - r * 0.9}h${r * 1.8}v${r * 1.8}h${-r * 1.8}z`,
  (x, y, r) => `M${x} ${y - r * 1.2}l${r * 1.15} ${r * 2}h${-r * 2.3}z`,
  (x, y, r) => `M${x} ${y - r * 1.3}l${r * 1.3} ${r * 1.3}l${-r * 1.3} ${r * 1.3}l${-r * 1.3} ${-r * 1.3}z`,
];
let answer = null;
let problem = null;
let asked = false;
let chosen = null;
let dots = [];
let ring = null;

const map = get("map"), caption = get("map-shown");
const color = group => group < 0 ? "none" : `c${group % COLORS}`;
const shape = group => SHAPES[group < 0 ? 0 : Math.floor(group / COLORS) % SHAPES.length];
const named = group => {
  const found = answer.groups.find(each => each.number === group);
  return !found ? say("groupNone") : found.label.length ? found.label.join(" · ") : say("groupUnnamed", { number: group + 1 });
};

const run = latest(async signal => {
  if (!known()?.index) {
    draw();
    return;
  }
  show(get("groups-working"));
  show(get("groups-result"), false);
  const method = get("method").value;
  const count = method === "kmeans" ? Math.max(0, Math.round(Number(get("count").value)) || 0) : 0;
  try {
    answer = await patiently({ method, count }, signal);
    [problem, chosen, asked] = [null, null, true];
    announce(say("groupsMade", { sentences: answer.points.length, count: answer.groups.length }));
  } catch (error) {
    if (signal.aborted) return;
    [answer, problem] = [null, error];
  }
  draw();
});

/** The server groups on after a time-out and remembers the result: ask again for it. */
async function patiently(body, signal) {
  get("groups-working").textContent = say("groupsWorking");
  for (let turn = 1; ; turn++) {
    try {
      return await ask("cluster", body, { signal, waiting: seconds => tellBusy(get("groups-problem"), seconds) });
    } catch (error) {
      if (error.status !== 504 || turn === TURNS) throw error;
      get("groups-working").textContent = say("groupsLonger");
    }
  }
}

export function start() { return asked && answer ? draw() : run(); }

export function draw() {
  show(get("groups-working"), false);
  const index = known()?.index ?? null;
  show(get("groups-form"), index !== null);
  show(get("count-field"), get("method").value === "kmeans");
  show(get("count-note"), get("method").value === "kmeans");
  tell(get("groups-problem"), problem);
  show(get("groups-result"), answer !== null);
  if (index === null) {
    if (known()) noIndex(get("groups-lead"), get("groups-hint"));
    return;
  }
  get("groups-lead").textContent = say("groupsLead");
  if (answer === null) return;
  drawMap();
  drawList();
  dim();
}

function drawMap() {
  const { points } = answer;
  const range = name => points.reduce(([low, high], point) => [Math.min(low, point[name]), Math.max(high, point[name])], [Infinity, -Infinity]);
  const [left, right] = range("x"), [bottom, top] = range("y");
  const radius = points.length > 2000 ? 4 : points.length > 500 ? 5.5 : points.length > 100 ? 7 : 10;
  dots = points.map(({ x, y, group, text }) => ({
    x: Math.round((MARGIN + (x - left) / (right - left || 1) * (WIDTH - 2 * MARGIN)) * 10) / 10,
    y: Math.round((HEIGHT - MARGIN - (y - bottom) / (top - bottom || 1) * (HEIGHT - 2 * MARGIN)) * 10) / 10,
    group, text,
  }));
  // One path a group: thousands of elements would make hovering slow.
  const marks = new Map();
  for (const { x, y, group } of dots) marks.set(group, (marks.get(group) ?? "") + shape(group)(x, y, radius));
  const paths = [...marks].sort(([one], [two]) => one - two).map(([group, outline]) => {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", outline);
    path.setAttribute("class", `mark ${color(group)}`);
    path.dataset.group = group;
    return path;
  });
  ring = document.createElementNS(SVG, "circle");
  ring.setAttribute("class", "ring");
  ring.setAttribute("r", radius + 5);
  ring.style.display = "none";
  map.replaceChildren(...paths, ring);
  hint();
}

function drawList() {
  const rest = dots.filter(dot => dot.group < 0).length;
  const groups = rest ? [...answer.groups, { number: -1, size: rest, label: [], examples: dots.filter(dot => dot.group < 0).slice(0, 3).map(dot => dot.text) }] : answer.groups;
  get("group-list").replaceChildren(...groups.map(({ number, size, examples }) => {
    const symbol = document.createElementNS(SVG, "svg");
    symbol.setAttribute("viewBox", "0 0 16 16");
    symbol.setAttribute("aria-hidden", "true");
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", shape(number)(8, 8, 5.5));
    path.setAttribute("class", `mark ${color(number)}`);
    symbol.append(path);
    const inside = make("ul", { class: "examples", lang: "ko", hidden: number !== chosen }, ...examples.slice(0, 5).map(text => make("li", { text })));
    const button = make("button", { type: "button", "aria-pressed": String(number === chosen), "data-group": number }, symbol,
      make("span", { text: named(number) }), make("small", { text: whole(size) }));
    button.addEventListener("click", () => {
      chosen = chosen === number ? null : number;
      for (const each of get("group-list").querySelectorAll("button")) {
        const pressed = Number(each.dataset.group) === chosen;
        each.setAttribute("aria-pressed", String(pressed));
        each.nextElementSibling.hidden = !pressed;
      }
      dim();
    });
    return make("li", {}, button, inside);
  }));
}

function dim() {
  for (const path of map.querySelectorAll("[data-group]")) path.classList.toggle("off", chosen !== null && Number(path.dataset.group) !== chosen);
  hint();
}

function hint() {
  if (ring) ring.style.display = "none";
  caption.replaceChildren(make("span", { class: "note", text: say("mapHint") }));
}

/** Show the sentence whose dot is nearest: a finger is wider than a dot. */
function point(event) {
  const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
  let best = null, least = 45 ** 2;
  for (const dot of dots) {
    const distance = (dot.x - x) ** 2 + (dot.y - y) ** 2;
    if (distance < least && (chosen === null || dot.group === chosen)) [best, least] = [dot, distance];
  }
  if (!best) return;
  ring.setAttribute("cx", best.x);
  ring.setAttribute("cy", best.y);
  ring.style.display = "";
  caption.replaceChildren(make("span", { class: "note", text: named(best.group) }), make("span", { lang: "ko", text: best.text }));
}

export function prepare() {
  map.addEventListener("pointermove", point);
  map.addEventListener("click", point);
  get("method").addEventListener("change", draw);
  get("groups-form").addEventListener("submit", event => { event.preventDefault(); run(); });
}
