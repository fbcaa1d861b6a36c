// File tab: read a file of sentences, embed it in chunks, and offer the embeddings as CSV.

import { ApiError, callApi, events, serverInfo, sleep, whenOnline } from "./api.js";
import { chunks, csvHeader, csvLine, decode, longestColumn, parseRows } from "./csv.js";
import { announce, byId, create, show } from "./dom.js";
import { errorTexts, showError } from "./errors.js";
import { t } from "./strings.js";

const MAX_FILE_BYTES = 200 * 2 ** 20;
const MAX_CHUNK_TEXTS = 64; // small enough for steady progress
const MAX_FAILED_ROWS = 20;
let file = null; // {name, rows, encoding}
let lastError = null;
let failedRows = []; // {row, error}
let statusText = () => "";
let controller = null; // AbortController of the current run
let downloadUrl = "";

const selectedColumn = () => Number(byId("column").value || 0);
const hasHeader = () => byId("header").checked;

/** The sentences of the selected column; `row` is the row number as a spreadsheet shows it. */
function sentences() {
  const column = selectedColumn();
  return file.rows.map((cells, index) => ({ row: index + 1, text: (cells[column] ?? "").trim() })).slice(hasHeader() ? 1 : 0);
}

async function open(input) {
  controller?.abort();
  controller = null;
  resetResult();
  file = lastError = null;
  const { name } = input;
  try {
    if (input.size > MAX_FILE_BYTES) throw new ApiError(413, { key: "fileTooLarge", values: { name, size: Math.round(input.size / 2 ** 20) } });
    const decoded = decode(new Uint8Array(await input.arrayBuffer()));
    if (decoded === null) throw new ApiError(400, { key: "fileUnreadable", values: { name } });
    const rows = parseRows(name, decoded.text);
    if (!rows.some(row => row.some(cell => cell.trim()))) throw new ApiError(400, { key: "fileEmpty", values: { name } });
    file = { name, rows, encoding: decoded.encoding };
    byId("header").checked = /\.[ct]sv$/i.test(name) && rows.length > 1;
    byId("column").value = "";
    renderColumns(longestColumn(rows.slice(hasHeader() ? 1 : 0)));
  } catch (error) {
    lastError = error instanceof ApiError ? error
      : new ApiError(400, "line" in error ? { key: "fileOpenQuote", values: { line: error.line } } : { key: "fileUnreadable", values: { name } });
  }
  render();
  if (file) announce(`${name} ${byId("file-size").textContent}`);
}

function resetResult() {
  if (downloadUrl) URL.revokeObjectURL(downloadUrl);
  [downloadUrl, failedRows, statusText] = ["", [], () => ""];
}

function renderColumns(selected = selectedColumn()) {
  const count = file.rows.reduce((max, row) => Math.max(max, row.length), 0);
  byId("column").replaceChildren(...Array.from({ length: count }, (_, column) =>
    create("option", { value: column, text: (hasHeader() && file.rows[0][column]?.trim()) || t("columnNumber", { number: column + 1 }) })));
  byId("column").value = String(selected);
}

export function render() {
  showError(byId("file-error"), lastError);
  show(byId("file-ready"), file !== null);
  if (file === null) return;
  renderColumns();
  const rows = sentences(), filled = rows.filter(({ text }) => text);
  const blank = rows.length - filled.length;
  byId("file-name").textContent = file.name;
  byId("file-size").textContent = t(blank ? "fileRowsBlank" : "fileRows", { rows: rows.length, encoding: file.encoding, blank });
  show(byId("column-field"), file.rows.some(row => row.length > 1));
  show(byId("header-field"), !/\.txt$/i.test(file.name));
  byId("preview").replaceChildren(...filled.slice(0, 3).map(({ row, text }) => create("li", { value: row, text })));
  for (const control of byId("file-options").querySelectorAll("select, input")) control.disabled = controller !== null;
  byId("file-start").disabled = !filled.length;
  show(byId("file-start"), controller === null && !downloadUrl);
  show(byId("file-cancel"), controller !== null);
  show(byId("file-run"), controller !== null || statusText() !== "");
  byId("file-status").textContent = statusText();
  const download = byId("download");
  show(download, downloadUrl !== "" && controller === null);
  if (downloadUrl) {
    download.href = downloadUrl;
    download.download = `${file.name.replace(/\.[^.]*$/, "")}-embeddings.csv`;
  }
  const errors = byId("file-failed-rows");
  show(errors, failedRows.length > 0);
  errors.replaceChildren(...failedRows.map(({ row, error }) => {
    const [text, serverMessage] = errorTexts(error);
    return create("li", {}, create("b", { text: t("failedRow", { row }) }), ` ${text} `,
      serverMessage ? create("span", { class: "server-message", lang: "en", text: serverMessage }) : "");
  }));
}

function setStatus(getText) {
  statusText = getText;
  byId("file-status").textContent = getText();
}

async function run() {
  resetResult();
  const runController = controller = new AbortController();
  const { signal } = runController;
  const items = sentences().filter(({ text }) => text), rows = items.length;
  const limits = serverInfo()?.limits ?? {};
  const maxFullTexts = Math.floor((limits.max_tokens ?? Infinity) / (serverInfo()?.max_length ?? 512)); // texts of maximum length that fit
  const maxTexts = Math.max(1, Math.min(MAX_CHUNK_TEXTS, limits.max_texts ?? MAX_CHUNK_TEXTS, maxFullTexts));
  const maxBytes = (limits.max_body_bytes ?? 2 ** 20) * 0.8;
  const blobs = [];
  let done = 0, vectors = 0, dimensions = 0;
  const startTime = performance.now();
  const showProgress = () => {
    byId("progress").value = done / rows;
    const speed = Math.round(done / Math.max(0.1, (performance.now() - startTime) / 1000));
    const doneNow = done;
    setStatus(() => t("fileProgress", { done: doneNow, rows, speed }));
  };
  const setRowStatus = (key, values = {}) => { const doneNow = done; setStatus(() => t(key, { ...values, done: doneNow, rows })); };
  byId("progress").value = 0;
  showProgress();
  render();
  announce(t("fileProgress", { done, rows, speed: 0 }));

  /** Return the vectors of a chunk, null for rejected sentences. A rejected chunk is halved until the row is found. */
  async function embed(chunk) {
    for (;;) {
      try {
        const inputs = chunk.map(({ text }) => text);
        return await callApi("embed", { inputs, truncate: byId("truncate").checked }, { signal, onBusy: seconds => setRowStatus("fileBusy", { seconds }) });
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (error.offline) {
          setRowStatus("fileOffline");
          await unlessAborted(whenOnline(), signal);
        } else if (error.status === 401) {
          setRowStatus("fileKey");
          await unlessAborted(new Promise(resolve => events.addEventListener("info", resolve, { once: true })), signal);
        } else if (chunk.length > 1) {
          const middle = chunk.length >> 1;
          return [...await embed(chunk.slice(0, middle)), ...await embed(chunk.slice(middle))];
        } else {
          failedRows.push({ row: chunk[0].row, error });
          if (failedRows.length >= MAX_FAILED_ROWS) throw error;
          return [null];
        }
      }
    }
  }

  try {
    for (const chunk of chunks(items, { maxTexts, maxBytes })) {
      const embeddings = await embed(chunk);
      const lines = chunk.map((item, index) => embeddings[index] ? csvLine(item, embeddings[index]) : "");
      dimensions ||= embeddings.find(Boolean)?.length ?? 0;
      vectors += embeddings.filter(Boolean).length;
      blobs.push(new Blob(lines)); // browsers may keep blobs on disk
      done += chunk.length;
      showProgress();
    }
    setStatus(() => t("fileDone", { vectors, dimensions }));
  } catch (error) {
    if (!signal.aborted && !(error instanceof ApiError)) throw error;
    if (controller === runController) setRowStatus(signal.aborted ? "fileCancelled" : "fileFailed");
  }
  if (controller !== runController) return; // another file was opened
  controller = null;
  if (vectors) downloadUrl = URL.createObjectURL(new Blob([csvHeader(dimensions), ...blobs], { type: "text/csv;charset=utf-8" }));
  render();
  announce(statusText());
  byId(downloadUrl ? "download" : "file-start").focus();
}

/** Wait for a promise; reject if the signal is aborted first. */
function unlessAborted(promise, signal) {
  return Promise.race([promise, sleep(2 ** 31 - 1, signal)]);
}

export function start() { render(); }

export function setup() {
  const dropZone = byId("drop-zone"), input = byId("file-input");
  input.addEventListener("change", () => {
    if (input.files.length) open(input.files[0]);
    input.value = ""; // so that the same file can be chosen again
  });
  // A file dropped outside the drop zone must not replace the page.
  for (const name of ["dragover", "drop"]) window.addEventListener(name, event => event.preventDefault());
  const panel = byId("file");
  panel.addEventListener("dragover", () => dropZone.classList.add("dragover"));
  panel.addEventListener("dragleave", () => dropZone.classList.remove("dragover"));
  panel.addEventListener("drop", event => {
    dropZone.classList.remove("dragover");
    if (event.dataTransfer?.files.length) open(event.dataTransfer.files[0]);
  });
  for (const id of ["column", "header", "truncate"]) byId(id).addEventListener("change", () => { resetResult(); render(); });
  byId("file-start").addEventListener("click", run);
  byId("file-cancel").addEventListener("click", () => controller?.abort());
}
