// Every sentence of the page, in Korean and English; {name} is filled in.

const TABLE = {
  tagline: ["문장을 벡터로, 뜻을 숫자로", "Sentences as vectors, meaning as a number"],
  links: ["바로 가기", "Links"],
  functions: ["기능", "Functions"],
  report: ["연구 보고서", "Study report"],
  api: ["API", "API"],
  key: ["API 키", "API key"],
  keyLabel: ["API 키", "API key"],
  keyUse: ["사용하기", "Use it"],
  keyNeeded: ["이 서버는 API 키가 있어야 씁니다. 키는 이 탭에만 남습니다.", "This server asks for an API key. The key stays in this tab only."],
  keyWrong: ["서버가 이 키를 받아들이지 않았습니다. 다시 확인해 주세요.", "The server did not accept this key. Please check it."],

  tabCompare: ["비교", "Compare"],
  tabHeat: ["히트맵", "Heat map"],
  tabSearch: ["검색", "Search"],
  tabGroups: ["지도", "Map"],
  tabFile: ["파일", "File"],

  compareTitle: ["두 문장의 뜻은 얼마나 가까울까요?", "How close are two sentences in meaning?"],
  compareLead: ["고쳐 쓰면 바로 다시 계산합니다.", "Change either one; the answer follows."],
  leftLabel: ["첫째 문장", "First sentence"],
  rightLabel: ["둘째 문장", "Second sentence"],
  another: ["다른 예 보기", "Another example"],
  cosine: ["코사인 유사도", "Cosine similarity"],
  cosineSaid: ["코사인 유사도 {cosine}", "Cosine similarity {cosine}"],
  wordsTitle: ["어떤 낱말이 유사도를 만들었나", "Which words carry the similarity"],
  wordNote: ["낱말 아래 숫자는 그 낱말을 뺄 때 코사인이 내려가는 크기입니다.", "Below each word: how far the cosine falls without it."],
  wordFor: ["‘{word}’ 없이는 코사인이 {effect} 내려갑니다.", "Without “{word}” the cosine falls by {effect}."],
  wordAgainst: ["‘{word}’ 없이는 코사인이 {effect} 올라갑니다.", "Without “{word}” the cosine rises by {effect}."],
  legendFor: ["가깝게 하는 낱말", "brings them closer"],
  legendAgainst: ["멀어지게 하는 낱말", "drives them apart"],
  compareEmpty: ["두 칸에 문장을 쓰면 결과가 나타납니다.", "Write a sentence in both fields to see the result."],

  heatTitle: ["여러 문장을 한눈에", "Several sentences at a glance"],
  heatLead: ["한 줄에 한 문장씩, 2개에서 50개까지 씁니다.", "One sentence a line, 2 to 50 of them."],
  heatLabel: ["문장들", "Sentences"],
  heatCount: ["{count}문장", "{count} sentences"],
  gather: ["비슷한 문장끼리 모으기", "Put similar sentences side by side"],
  heatFew: ["두 문장부터 비교할 수 있습니다.", "Write at least two sentences, one a line."],
  heatMany: ["한 번에 50문장까지입니다. 지금은 {count}문장입니다.", "50 sentences at most; there are {count} now."],
  heatNote: ["가장 가까운 쌍은 {one}번과 {two}번, 코사인 {cosine}", "The closest pair is {one} and {two}, cosine {cosine}"],
  heatCorner: ["문장", "Sentence"],

  searchTitle: ["뜻으로 찾기", "Search by meaning"],
  searchLead: ["색인된 {count}문장에서 뜻이 가까운 순서로 보여 줍니다.", "The nearest of {count} indexed sentences, as you type."],
  searchNone: ["아직 색인이 없습니다. 파일 하나로 만들 수 있습니다.", "No index is mounted yet. One file is enough to make one:"],
  sampleFile: ["문장.csv", "sentences.csv"],
  sampleIndex: ["내-색인", "my-index"],
  queryLabel: ["찾을 말", "What to look for"],
  filterLabel: ["조건", "Filter"],
  filterNote: ["쓸 수 있는 항목: {fields}. 예: {example}", "Fields: {fields}. For example: {example}"],
  filterOther: ["값", "value"],
  hybrid: ["같은 낱말도 함께 보기(BM25)", "Count common words too (BM25)"],
  searchNothing: ["찾은 문장이 없습니다.", "Nothing was found."],
  searchFound: ["{count}문장을 찾았습니다.", "{count} sentences found."],
  why: ["왜?", "Why?"],
  whySaid: ["‘{text}’와 비교하기", "Compare with “{text}”"],

  groupsTitle: ["문장 지도", "A map of the sentences"],
  groupsLead: ["가까운 점은 뜻이 가까운 문장입니다. 점을 가리키거나 목록에서 묶음을 고르세요.", "Dots near each other are close in meaning. Point at one, or choose a group from the list."],
  method: ["방법", "Method"],
  kmeans: ["k-평균", "k-means"],
  agglomerative: ["병합 군집", "Agglomerative"],
  hdbscan: ["HDBSCAN", "HDBSCAN"],
  count: ["묶음 수", "Groups"],
  countNote: ["0이면 알아서 정합니다.", "0 chooses by itself."],
  groupAgain: ["다시 묶기", "Group again"],
  groupsWorking: ["묶는 중입니다. 처음에는 몇 초 걸릴 수 있습니다.", "Grouping. The first time may take some seconds."],
  groupsLonger: ["문장이 많아 시간이 걸립니다. 계속 기다리는 중입니다.", "There are many sentences; this takes a while. Still waiting."],
  groupsMade: ["{sentences}문장을 {count}묶음으로 나누었습니다.", "{sentences} sentences in {count} groups."],
  groupList: ["묶음", "Groups"],
  groupNone: ["어느 묶음에도 없음", "in no group"],
  groupUnnamed: ["묶음 {number}", "Group {number}"],
  mapLabel: ["문장 지도. 묶음의 내용은 옆의 목록에 있습니다.", "Map of the sentences; the list beside it says what each group holds."],
  mapHint: ["점을 가리키면 문장이 보입니다.", "Point at a dot to read its sentence."],

  fileTitle: ["파일을 벡터로", "A file into vectors"],
  fileLead: ["파일은 브라우저가 읽습니다. 고른 열의 문장만 이 서버로 가고, 결과는 CSV로 내려받습니다.", "Your browser reads the file. Only the sentences of the chosen column go to this server; the vectors come back as CSV."],
  dropHere: ["CSV·TSV·TXT 파일을 여기에 놓으세요", "Drop a CSV, TSV or TXT file here"],
  chooseFile: ["파일 고르기", "Choose a file"],
  fileKinds: ["UTF-8과 CP949(엑셀) 모두 읽습니다.", "UTF-8 and CP949 (Korean Excel) are both read."],
  fileEmpty: ["{name}에는 문장이 없습니다.", "{name} holds no sentences."],
  fileUnreadable: ["{name}을(를) 읽을 수 없습니다. 텍스트 파일인지 확인해 주세요.", "{name} cannot be read. Is it a text file?"],
  fileOpenQuote: ["{line}번째 줄에서 열린 따옴표가 닫히지 않았습니다.", "The quotation mark opened in line {line} is never closed."],
  fileRows: ["{rows}행 · {encoding}", "{rows} rows · {encoding}"],
  fileBlank: ["{rows}행 · {encoding} · 빈 행 {blank}개는 건너뜁니다", "{rows} rows · {encoding} · {blank} blank ones are left out"],
  column: ["문장이 있는 열", "Column of the sentences"],
  columnNumber: ["{number}번째 열", "Column {number}"],
  titles: ["첫 행은 제목", "The first row holds titles"],
  truncate: ["너무 긴 문장은 앞부분만 쓰기", "Use only the beginning of sentences that are too long"],
  preview: ["미리 보기", "Preview"],
  fileStart: ["벡터 만들기", "Make vectors"],
  cancel: ["취소", "Cancel"],
  download: ["벡터 CSV 내려받기", "Download vectors as CSV"],
  progress: ["진행", "Progress"],
  fileState: ["{done} / {rows}행 · 초당 {speed}문장", "{done} of {rows} rows · {speed} a second"],
  fileBusy: ["서버가 바쁩니다. {seconds}초 뒤에 이어 갑니다. ({done} / {rows}행)", "The server is busy; going on in {seconds} s. ({done} of {rows} rows)"],
  fileGone: ["서버를 기다리는 중입니다. 돌아오면 이어 갑니다. ({done} / {rows}행)", "Waiting for the server; it goes on when it is back. ({done} of {rows} rows)"],
  fileKey: ["키를 기다리는 중입니다. ({done} / {rows}행)", "Waiting for the key. ({done} of {rows} rows)"],
  fileDone: ["다 되었습니다. {vectors}문장, {dimensions}차원.", "Done: {vectors} sentences, {dimensions} dimensions."],
  fileCancelled: ["{done}행에서 멈추었습니다.", "Stopped after {done} rows."],
  fileStopped: ["실패한 행이 너무 많아 {done}행에서 멈추었습니다.", "Too many rows failed; stopped after {done} rows."],
  failedRows: ["벡터를 만들지 못한 행", "Rows without a vector"],
  rowFailed: ["{row}행", "Row {row}"],
  fileTooLarge: ["{name}: {size} MB는 브라우저에서 다루기에 너무 큽니다. kosbert encode를 쓰세요.", "{name} has {size} MB, too much for a browser: use kosbert encode."],

  busy: ["서버가 바쁩니다. {seconds}초 뒤에 다시 묻습니다.", "The server is busy; asking again in {seconds} s."],
  gone: ["서버에 닿지 않습니다. 다시 이어지면 알아서 계속합니다.", "The server cannot be reached. The page goes on by itself when it is back."],
  back: ["서버에 다시 이어졌습니다.", "The server is back."],
  bodyTooLarge: ["입력이 너무 깁니다. 이 서버는 한 번에 {bytes}바이트까지 받습니다.", "This is too long: the server takes {bytes} bytes at a time."],
  problem400: ["서버가 이 입력을 받을 수 없습니다.", "The server cannot take this input."],
  problem401: ["API 키가 필요합니다.", "An API key is needed."],
  problem404: ["서버에 이 기능이 없습니다.", "The server does not have this."],
  problem413: ["입력이 너무 깁니다.", "The input is too long."],
  problem504: ["시간 안에 답하지 못했습니다.", "The answer took too long."],
  problem: ["서버에서 문제가 생겼습니다.", "Something went wrong on the server."],
  about: ["{model} · {dimensions}차원 · 최대 {length}토큰 · {backend} · kosbert {version}", "{model} · {dimensions} dimensions · up to {length} tokens · {backend} · kosbert {version}"],
};

const LANGUAGES = ["ko", "en"];
const CHOICE = "kosbert-language";
let language = chosen() ?? (navigator.languages ?? [navigator.language]).map(tag => tag.slice(0, 2)).find(tag => LANGUAGES.includes(tag)) ?? "en";

function chosen() {
  try {
    const found = localStorage.getItem(CHOICE);
    return LANGUAGES.includes(found) ? found : null;
  } catch { return null; }
}

export const current = () => language;
export const other = () => LANGUAGES.find(each => each !== language);

export function choose(wanted) {
  language = wanted;
  try { localStorage.setItem(CHOICE, wanted); } catch { /* then the browser's language counts next time */ }
}

export function say(name, values = {}) {
  if (!(name in TABLE)) throw new Error(`no words for ${name}`);
  return TABLE[name][LANGUAGES.indexOf(language)].replace(/\{(\w+)\}/g, (_, slot) => {
    const value = values[slot];
    return typeof value === "number" ? whole(value) : String(value);
  });
}

/** Fill in the words of the document: data-say for the content, data-say-label for the accessible name. */
export function translate() {
  document.documentElement.lang = language;
  for (const element of document.querySelectorAll("[data-say]")) element.textContent = say(element.dataset.say);
  for (const element of document.querySelectorAll("[data-say-label]")) element.setAttribute("aria-label", say(element.dataset.sayLabel));
}

export const whole = value => value.toLocaleString(language);

/** A number with a real minus sign; `signed` gives a plus as well. */
export function decimal(value, digits, { signed = false } = {}) {
  const text = Math.abs(value).toFixed(digits);
  if (Number(text) === 0) return text;
  return value < 0 ? `\u2212${text}` : signed ? `+${text}` : text;
}
