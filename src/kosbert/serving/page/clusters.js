// Clusters tab: a map of the index with one mark per sentence; similar sentences are close together.

import { callApi, serverInfo } from "./api.js";
import { announce, byId, create, latestOnly, show } from "./dom.js";
import { showBusy, showError } from "./errors.js";
import { showNoIndex } from "./search.js";
import { formatInteger, t } from "./strings.js";

const COLORS = 8;
const MAX_ATTEMPTS = 10;
const WIDTH = 1000, HEIGHT = 760, MARGIN = 24;
const MAX_POINTER_DISTANCE = 45;
const SVG = "http://www.w3.org/2000/svg";
// Eight colors times four shapes: clusters differ for color-blind users too, and beyond eight.
const SHAPES = [
  (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`,
  (x, y, r) => `M${x - r * 0.9} ${y - r * 0.9}h${r * 1.8}v${r * 1.8}h${-r * 1.8}z`,
  (x, y, r) => `M${x} ${y - r * 1.2}l${r * 1.15} ${r * 2}h${-r * 2.3}z`,
  (x, y, r) => `M${x} ${y - r * 1.3}l${r * 1.3} ${r * 1.3}l${-r * 1.3} ${r * 1.3}l${-r * 1.3} ${-r * 1.3}z`,
];
let response = null;
let lastError = null;
let selected = null; // id of a cluster
let dots = [];
let ring = null;

const map = byId("map"), caption = byId("map-caption");
const colorOf = id => id < 0 ? "noise" : `c${id % COLORS}`;
const shapeOf = id => SHAPES[id < 0 ? 0 : Math.floor(id / COLORS) % SHAPES.length];
const nameOf = id => {
  const cluster = response.clusters.find(cluster => cluster.id === id);
  return !cluster ? t("noise") : cluster.topic.length ? cluster.topic.join(" · ") : t("clusterUnnamed", { number: id + 1 });
};

const run = latestOnly(async signal => {
  if (!serverInfo()?.index) {
    render();
    return;
  }
  show(byId("clusters-running"));
  show(byId("clusters-result"), false);
  const method = byId("method").value;
  const n_clusters = method === "kmeans" ? Math.max(0, Math.round(Number(byId("n-clusters").value)) || 0) : 0;
  try {
    response = await requestClusters({ method, n_clusters }, signal);
    [lastError, selected] = [null, null];
    announce(t("clustersDone", { sentences: response.points.length, count: response.clusters.length }));
  } catch (error) {
    if (signal.aborted) return;
    [response, lastError] = [null, error];
  }
  render();
});

/** Request clusters; after a timeout the server continues and caches the result, so try again. */
async function requestClusters(body, signal) {
  byId("clusters-running").textContent = t("clustersRunning");
  for (let attempt = 1; ; attempt++) {
    try {
      return await callApi("cluster", body, { signal, onBusy: seconds => showBusy(byId("clusters-error"), seconds) });
    } catch (error) {
      if (error.status !== 504 || attempt === MAX_ATTEMPTS) throw error;
      byId("clusters-running").textContent = t("clustersSlow");
    }
  }
}

export function start() { return response ? render() : run(); }

export function render() {
  show(byId("clusters-running"), false);
  const index = serverInfo()?.index ?? null;
  show(byId("clusters-form"), index !== null);
  show(byId("n-clusters-field"), byId("method").value === "kmeans");
  show(byId("n-clusters-note"), byId("method").value === "kmeans");
  showError(byId("clusters-error"), lastError);
  show(byId("clusters-result"), response !== null);
  if (index === null) {
    if (serverInfo()) showNoIndex(byId("clusters-lead"), byId("clusters-empty"));
    return;
  }
  byId("clusters-lead").textContent = t("clustersLead");
  if (response === null) return;
  renderMap();
  renderList();
  highlightSelected();
}

function renderMap() {
  const { points } = response;
  const range = axis => points.reduce(([low, high], point) => [Math.min(low, point[axis]), Math.max(high, point[axis])], [Infinity, -Infinity]);
  const [left, right] = range("x"), [bottom, top] = range("y");
  const radius = points.length > 2000 ? 4 : points.length > 500 ? 5.5 : points.length > 100 ? 7 : 10;
  dots = points.map(({ x, y, cluster, text }) => ({
    x: Math.round((MARGIN + (x - left) / (right - left || 1) * (WIDTH - 2 * MARGIN)) * 10) / 10,
    y: Math.round((HEIGHT - MARGIN - (y - bottom) / (top - bottom || 1) * (HEIGHT - 2 * MARGIN)) * 10) / 10,
    cluster, text,
  }));
  // One path per cluster: thousands of elements would make hovering slow.
  const outlines = new Map();
  for (const { x, y, cluster } of dots) outlines.set(cluster, (outlines.get(cluster) ?? "") + shapeOf(cluster)(x, y, radius));
  const paths = [...outlines].sort(([id], [otherId]) => id - otherId).map(([id, outline]) => {
    const path = createMark(id, outline);
    path.dataset.cluster = id;
    return path;
  });
  ring = document.createElementNS(SVG, "circle");
  ring.setAttribute("class", "ring");
  ring.setAttribute("r", radius + 5);
  ring.style.display = "none";
  map.replaceChildren(...paths, ring);
}

function createMark(id, outline) {
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", outline);
  path.setAttribute("class", `mark ${colorOf(id)}`);
  return path;
}

function renderList() {
  const noise = dots.filter(dot => dot.cluster < 0);
  const clusters = noise.length
    ? [...response.clusters, { id: -1, size: noise.length, representatives: noise.slice(0, 3).map(dot => dot.text) }] : response.clusters;
  byId("cluster-list").replaceChildren(...clusters.map(({ id, size, representatives }) => {
    const symbol = document.createElementNS(SVG, "svg");
    symbol.setAttribute("viewBox", "0 0 16 16");
    symbol.setAttribute("aria-hidden", "true");
    symbol.append(createMark(id, shapeOf(id)(8, 8, 5.5)));
    const examples = create("ul", { class: "examples", lang: "ko", hidden: id !== selected }, ...representatives.slice(0, 5).map(text => create("li", { text })));
    const button = create("button", { type: "button", "aria-pressed": String(id === selected), "data-cluster": id }, symbol,
      create("span", { text: nameOf(id) }), create("small", { text: formatInteger(size) }));
    button.addEventListener("click", () => {
      selected = selected === id ? null : id;
      for (const item of byId("cluster-list").querySelectorAll("button")) {
        const pressed = Number(item.dataset.cluster) === selected;
        item.setAttribute("aria-pressed", String(pressed));
        item.nextElementSibling.hidden = !pressed;
      }
      highlightSelected();
    });
    return create("li", {}, button, examples);
  }));
}

function highlightSelected() {
  for (const path of map.querySelectorAll("[data-cluster]")) path.classList.toggle("faded", selected !== null && Number(path.dataset.cluster) !== selected);
  ring.style.display = "none";
  caption.replaceChildren(create("span", { class: "note", text: t("mapHint") }));
}

/** Show the sentence of the nearest dot; it need not be under the pointer, because a finger is wider than a dot. */
function showNearest(event) {
  const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
  let nearest = null, minDistance = MAX_POINTER_DISTANCE ** 2;
  for (const dot of dots) {
    const distance = (dot.x - x) ** 2 + (dot.y - y) ** 2;
    if (distance < minDistance && (selected === null || dot.cluster === selected)) [nearest, minDistance] = [dot, distance];
  }
  if (!nearest) return;
  ring.setAttribute("cx", nearest.x);
  ring.setAttribute("cy", nearest.y);
  ring.style.display = "";
  caption.replaceChildren(create("span", { class: "note", text: nameOf(nearest.cluster) }), create("span", { lang: "ko", text: nearest.text }));
}

export function setup() {
  map.addEventListener("pointermove", showNearest);
  map.addEventListener("click", showNearest);
  byId("method").addEventListener("change", render);
  byId("clusters-form").addEventListener("submit", event => { event.preventDefault(); run(); });
}
