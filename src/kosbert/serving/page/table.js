// Files of sentences: bytes to text, text to rows, vectors to CSV. Nothing here touches the document.

/** Bytes as text: UTF-8, UTF-16 with its mark, else CP949, in which Korean Excel writes; null if it is no text. */
export function decode(bytes) {
  const marked = bytes[0] === 0xff && bytes[1] === 0xfe ? "utf-16le" : bytes[0] === 0xfe && bytes[1] === 0xff ? "utf-16be" : null;
  // "euc-kr" is CP949 to browsers, which take it with all 11,172 syllables.
  for (const [encoding, name] of marked ? [[marked, "UTF-16"]] : [["utf-8", "UTF-8"], ["euc-kr", "CP949"]]) {
    try {
      const text = new TextDecoder(encoding, { fatal: true }).decode(bytes);
      return text.includes("\0") ? null : { text, encoding: name };
    } catch { /* the next one */ }
  }
  return null;
}

/** Rows of cells, by the name's ending: .csv with quotes, .tsv without (KorSTS has lone ones), else a sentence a line. */
export function rowsOf(name, text) {
  const ending = name.toLowerCase().split(".").at(-1);
  if (ending === "csv") return commaSeparated(text);
  const lines = text.split(/\r\n|\n|\r/);
  if (lines.at(-1) === "") lines.pop();
  return lines.map(line => ending === "tsv" ? line.split("\t") : [line]);
}

/** The separator that the first line has most of: a comma, a semicolon (some Excels) or a tab. */
function separatorOf(text) {
  const first = text.slice(0, /[\r\n]|$/.exec(text).index).replace(/"[^"]*"/g, "");
  return [",", ";", "\t"].map(sign => [first.split(sign).length, sign]).sort((one, two) => two[0] - one[0])[0][1];
}

/** RFC 4180, with all three line ends; an open quotation mark throws {line}, where it was opened. */
function commaSeparated(text) {
  const separator = separatorOf(text);
  const rows = [];
  let row = [], cell = "", quoted = false, fresh = true, line = 1, opened = 1;
  const endCell = () => { row.push(cell); cell = ""; fresh = true; };
  const endRow = () => { endCell(); rows.push(row); row = []; };
  for (let place = 0; place < text.length; place++) {
    const sign = text[place];
    if (sign === "\n" || (sign === "\r" && text[place + 1] !== "\n")) line++;
    if (quoted) {
      if (sign !== '"') cell += sign;
      else if (text[place + 1] === '"') { cell += sign; place++; } else quoted = false;
    } else if (sign === '"' && fresh) {
      [quoted, fresh, opened] = [true, false, line];
    } else if (sign === separator) endCell();
    else if (sign === "\n") endRow();
    else if (sign === "\r") { if (text[place + 1] !== "\n") endRow(); } else { cell += sign; fresh = false; }
  }
  if (quoted) throw { line: opened };
  if (cell || row.length || !fresh) endRow();
  return rows;
}

/** The column that most likely holds sentences: the one with the longest cells. */
export function longestColumn(rows) {
  const lengths = [];
  for (const row of rows.slice(0, 200)) row.forEach((cell, place) => { lengths[place] = (lengths[place] ?? 0) + cell.length; });
  return lengths.indexOf(Math.max(...lengths));
}

/** Split sentences into requests that the server takes: a number of texts and of bytes each. */
export function* chunks(items, { texts, bytes }) {
  let chunk = [], size = 0;
  for (const item of items) {
    const length = item.text.length * 3 + 8; // a Hangul syllable has three bytes
    if (chunk.length && (chunk.length >= texts || size + length > bytes)) {
      yield chunk;
      [chunk, size] = [[], 0];
    }
    chunk.push(item);
    size += length;
  }
  if (chunk.length) yield chunk;
}

const cellOf = text => /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

/** The first line; the mark before it makes Excel read UTF-8. */
export const headOf = dimensions => `\ufeffrow,text,${Array.from({ length: dimensions }, (_, place) => `d${place}`).join(",")}\r\n`;

/** A sentence and its vector as a line; nine digits hold a float32 exactly. */
export const lineOf = ({ row, text }, vector) => `${row},${cellOf(text)},${vector.map(value => Number(value.toPrecision(9))).join(",")}\r\n`;
