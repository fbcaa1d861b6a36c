// A file of sentences to vectors: read here, sent in pieces, given back as CSV.

import { announce, get, make, show } from "./dom.js";
import { tell, wordsOf } from "./problems.js";
import { Problem, ask, events, known, pause, whenBack } from "./server.js";
import { chunks, decode, headOf, lineOf, longestColumn, rowsOf } from "./table.js";
import { say } from "./words.js";

const LARGEST = 200 * 2 ** 20;
const TEXTS = 64; // a request this long answers soon enough for the progress to move
const MOST_FAILED = 20;
let file = null; // {name, rows, encoding}
let problem = null;
let failed = []; // {row, problem}
let state = () => "";
let running = null; // the AbortController of the run
let address = "";

const column = () => Number(get("column").value || 0);
const titled = () => get("titles").checked;

/** The sentences of the chosen column; `row` is the row's number as a spreadsheet shows it. */
function sentences() {
  const place = column();
  return file.rows.map((cells, number) => ({ row: number + 1, text: (cells[place] ?? "").trim() })).slice(titled() ? 1 : 0);
}

async function open(given) {
  running?.abort();
  running = null;
  forget();
  file = problem = null;
  const { name } = given;
  try {
    if (given.size > LARGEST) throw new Problem(413, { key: "fileTooLarge", values: { name, size: Math.round(given.size / 2 ** 20) } });
    const read = decode(new Uint8Array(await given.arrayBuffer()));
    if (read === null) throw new Problem(400, { key: "fileUnreadable", values: { name } });
    const rows = rowsOf(name, read.text);
    if (!rows.some(row => row.some(cell => cell.trim()))) throw new Problem(400, { key: "fileEmpty", values: { name } });
    file = { name, rows, encoding: read.encoding };
    get("titles").checked = /\.[ct]sv$/i.test(name) && rows.length > 1;
    get("column").value = "";
    drawColumns(longestColumn(rows.slice(titled() ? 1 : 0)));
  } catch (error) {
    problem = error instanceof Problem ? error
      : new Problem(400, "line" in error ? { key: "fileOpenQuote", values: { line: error.line } } : { key: "fileUnreadable", values: { name } });
  }
  draw();
  if (file) announce(`${name} ${get("file-size").textContent}`);
}

function forget() {
  if (address) URL.revokeObjectURL(address);
  [address, failed, state] = ["", [], () => ""];
}

function drawColumns(wanted = column()) {
  const wide = file.rows.reduce((most, row) => Math.max(most, row.length), 0);
  get("column").replaceChildren(...Array.from({ length: wide }, (_, place) =>
    make("option", { value: place, text: (titled() && file.rows[0][place]?.trim()) || say("columnNumber", { number: place + 1 }) })));
  get("column").value = String(wanted);
}

export function draw() {
  tell(get("file-problem"), problem);
  show(get("file-ready"), file !== null);
  if (file === null) return;
  drawColumns();
  const all = sentences(), filled = all.filter(each => each.text);
  const blank = all.length - filled.length;
  get("file-name").textContent = file.name;
  get("file-size").textContent = say(blank ? "fileBlank" : "fileRows", { rows: all.length, encoding: file.encoding, blank });
  const plain = file.rows.every(row => row.length < 2);
  show(get("column-field"), !plain);
  show(get("titles-field"), !/\.txt$/i.test(file.name));
  get("preview").replaceChildren(...filled.slice(0, 3).map(({ row, text }) => make("li", { value: row, text })));
  for (const control of get("file-options").querySelectorAll("select, input")) control.disabled = running !== null;
  get("file-start").disabled = !filled.length;
  show(get("file-start"), running === null && !address);
  show(get("file-cancel"), running !== null);
  show(get("file-run"), running !== null || state() !== "");
  get("file-state").textContent = state();
  const download = get("download");
  show(download, address !== "" && running === null);
  if (address) {
    download.href = address;
    download.download = `${file.name.replace(/\.[^.]*$/, "")}-vectors.csv`;
  }
  const errors = get("file-errors");
  show(errors, failed.length > 0);
  errors.replaceChildren(...failed.map(each => {
    const [own, theirs] = wordsOf(each.problem);
    return make("li", {}, make("b", { text: say("rowFailed", { row: each.row }) }), ` ${own} `, theirs ? make("span", { class: "theirs", lang: "en", text: theirs }) : "");
  }));
}

function tellState(words) {
  state = words;
  get("file-state").textContent = words();
}

async function run() {
  forget();
  const mine = running = new AbortController();
  const { signal } = mine;
  const all = sentences().filter(each => each.text), rows = all.length;
  const limits = known()?.limits ?? {};
  const whole = Math.floor((limits.tokens ?? Infinity) / (known()?.max_length ?? 512)); // sentences of full length that fit
  const size = { texts: Math.max(1, Math.min(TEXTS, limits.texts ?? TEXTS, whole)), bytes: (limits.body_bytes ?? 2 ** 20) * 0.8 };
  const parts = [];
  let done = 0, vectors = 0, dimensions = 0;
  const began = performance.now();
  const progress = () => {
    get("progress").value = done / rows;
    const speed = Math.round(done / Math.max(0.1, (performance.now() - began) / 1000));
    const at = done;
    tellState(() => say("fileState", { done: at, rows, speed }));
  };
  const told = (key, values = {}) => { const at = done; tellState(() => say(key, { ...values, done: at, rows })); };
  get("progress").value = 0;
  progress();
  draw();
  announce(say("fileState", { done, rows, speed: 0 }));

  /** The vectors of a piece, null for a sentence that the server refuses: found by halving, so that its row is named. */
  async function embed(piece) {
    for (;;) {
      try {
        const inputs = piece.map(each => each.text);
        return await ask("embed", { inputs, truncate: get("truncate").checked }, { signal, waiting: seconds => told("fileBusy", { seconds }) });
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        if (error.gone) {
          told("fileGone");
          await until(whenBack(), signal);
        } else if (error.status === 401) {
          told("fileKey");
          await until(new Promise(accepted => events.addEventListener("known", accepted, { once: true })), signal);
        } else if (piece.length > 1) {
          const middle = piece.length >> 1;
          return [...await embed(piece.slice(0, middle)), ...await embed(piece.slice(middle))];
        } else {
          failed.push({ row: piece[0].row, problem: error });
          if (failed.length >= MOST_FAILED) throw error;
          return [null];
        }
      }
    }
  }

  try {
    for (const piece of chunks(all, size)) {
      const made = await embed(piece);
      const lines = piece.map((each, place) => made[place] ? lineOf(each, made[place]) : "");
      dimensions ||= made.find(Boolean)?.length ?? 0;
      vectors += made.filter(Boolean).length;
      parts.push(new Blob(lines)); // the browser may keep these on disk
      done += piece.length;
      progress();
    }
    tellState(() => say("fileDone", { vectors, dimensions }));
  } catch (error) {
    if (!signal.aborted && !(error instanceof Problem)) throw error;
    if (running === mine) told(signal.aborted ? "fileCancelled" : "fileStopped");
  }
  if (running !== mine) return; // another file was opened meanwhile
  running = null;
  if (vectors) address = URL.createObjectURL(new Blob([headOf(dimensions), ...parts], { type: "text/csv;charset=utf-8" }));
  draw();
  announce(state());
  get(address ? "download" : "file-start").focus();
}

/** Wait for something, but not longer than until the user cancels. */
function until(event, signal) {
  return Promise.race([event, pause(2 ** 31 - 1, signal)]);
}

export function start() { draw(); }

export function prepare() {
  const drop = get("drop"), chosen = get("chosen");
  chosen.addEventListener("change", () => {
    if (chosen.files.length) open(chosen.files[0]);
    chosen.value = ""; // the same file may be chosen again
  });
  // A file that misses the box must not replace the page.
  for (const name of ["dragover", "drop"]) window.addEventListener(name, event => event.preventDefault());
  const panel = get("file");
  panel.addEventListener("dragover", () => drop.classList.add("over"));
  panel.addEventListener("dragleave", () => drop.classList.remove("over"));
  panel.addEventListener("drop", event => {
    drop.classList.remove("over");
    if (event.dataTransfer?.files.length) open(event.dataTransfer.files[0]);
  });
  for (const name of ["column", "titles", "truncate"]) get(name).addEventListener("change", () => { forget(); draw(); });
  get("file-start").addEventListener("click", run);
  get("file-cancel").addEventListener("click", () => running?.abort());
}
