// Read files of sentences and write embeddings as CSV. Does not touch the document.

/** Decode UTF-8, UTF-16 with a byte order mark, or CP949 (Korean Excel); null if the bytes are not text. */
export function decode(bytes) {
  const utf16 = bytes[0] === 0xff && bytes[1] === 0xfe ? "utf-16le" : bytes[0] === 0xfe && bytes[1] === 0xff ? "utf-16be" : null;
  // Browsers decode "euc-kr" as CP949, with all 11,172 syllables.
  for (const [encoding, name] of utf16 ? [[utf16, "UTF-16"]] : [["utf-8", "UTF-8"], ["euc-kr", "CP949"]]) {
    try {
      const text = new TextDecoder(encoding, { fatal: true }).decode(bytes);
      return text.includes("\0") ? null : { text, encoding: name };
    } catch { /* try the next encoding */ }
  }
  return null;
}

/** Parse rows of cells by file extension: .csv with quotes, .tsv without (KorSTS has unpaired ones), else one sentence per line. */
export function parseRows(name, text) {
  const extension = name.toLowerCase().split(".").at(-1);
  if (extension === "csv") return parseCsv(text);
  const lines = text.split(/\r\n|\n|\r/);
  if (lines.at(-1) === "") lines.pop();
  return lines.map(line => extension === "tsv" ? line.split("\t") : [line]);
}

/** Return the most frequent separator of the first line: comma, semicolon (some Excel locales) or tab. */
function detectSeparator(text) {
  const firstLine = text.slice(0, /[\r\n]|$/.exec(text).index).replace(/"[^"]*"/g, "");
  const count = separator => firstLine.split(separator).length;
  return [",", ";", "\t"].sort((a, b) => count(b) - count(a))[0];
}

/** Parse CSV (RFC 4180, any line ending). Throws {line} if a quotation mark opened on that line is never closed. */
function parseCsv(text) {
  const separator = detectSeparator(text);
  const rows = [];
  let row = [], cell = "", quoted = false, cellStart = true, line = 1, quoteLine = 1;
  const endCell = () => { row.push(cell); cell = ""; cellStart = true; };
  const endRow = () => { endCell(); rows.push(row); row = []; };
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (char === "\n" || (char === "\r" && text[i + 1] !== "\n")) line++;
    if (quoted) {
      if (char !== '"') cell += char;
      else if (text[i + 1] === '"') { cell += char; i++; } else quoted = false;
    } else if (char === '"' && cellStart) {
      [quoted, cellStart, quoteLine] = [true, false, line];
    } else if (char === separator) endCell();
    else if (char === "\n") endRow();
    else if (char === "\r") { if (text[i + 1] !== "\n") endRow(); } else { cell += char; cellStart = false; }
  }
  if (quoted) throw { line: quoteLine };
  if (cell || row.length || !cellStart) endRow();
  return rows;
}

/** Return the index of the column with the longest cells, which most likely holds the sentences. */
export function longestColumn(rows) {
  const lengths = [];
  for (const row of rows.slice(0, 200)) row.forEach((cell, column) => { lengths[column] = (lengths[column] ?? 0) + cell.length; });
  return lengths.indexOf(Math.max(...lengths));
}

/** Split sentences into requests within the server's limits. */
export function* chunks(items, { maxTexts, maxBytes }) {
  let chunk = [], size = 0;
  for (const item of items) {
    const bytes = item.text.length * 3 + 8; // a Hangul syllable has three bytes
    if (chunk.length && (chunk.length >= maxTexts || size + bytes > maxBytes)) {
      yield chunk;
      [chunk, size] = [[], 0];
    }
    chunk.push(item);
    size += bytes;
  }
  if (chunk.length) yield chunk;
}

const quote = text => /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

/** Return the header line; the byte order mark makes Excel read UTF-8. */
export const csvHeader = dimensions => `\ufeffrow,text,${Array.from({ length: dimensions }, (_, index) => `d${index}`).join(",")}\r\n`;

/** Return the line of a sentence and its vector; nine digits represent a float32 exactly. */
export const csvLine = ({ row, text }, vector) => `${row},${quote(text)},${vector.map(value => Number(value.toPrecision(9))).join(",")}\r\n`;
