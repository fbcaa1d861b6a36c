// All texts of the page in Korean and English; {name} is a placeholder.

const STRINGS = {
  tagline: ["한국어 문장 임베딩", "Korean sentence embeddings"],
  links: ["바로가기", "Links"],
  functions: ["기능", "Functions"],
  report: ["실험 보고서", "Study report"],
  api: ["API", "API"],
  key: ["API 키", "API key"],
  keyApply: ["적용", "Apply"],
  keyRequired: ["이 서버를 사용하려면 API 키가 필요합니다. 키는 이 탭에만 저장됩니다.", "This server requires an API key. The key is stored in this tab only."],
  keyInvalid: ["유효하지 않은 API 키입니다. 다시 확인해 주세요.", "The API key is invalid. Please check it."],

  tabCompare: ["비교", "Compare"],
  tabHeatmap: ["히트맵", "Heatmap"],
  tabSearch: ["검색", "Search"],
  tabClusters: ["군집", "Clusters"],
  tabFile: ["파일", "File"],

  compareTitle: ["두 문장은 얼마나 비슷할까요?", "How similar are two sentences?"],
  compareLead: ["문장을 수정하면 바로 다시 계산합니다.", "The result updates as you type."],
  leftLabel: ["문장 1", "Sentence 1"],
  rightLabel: ["문장 2", "Sentence 2"],
  anotherExample: ["다른 예시", "Another example"],
  cosine: ["코사인 유사도", "Cosine similarity"],
  cosineResult: ["코사인 유사도 {cosine}", "Cosine similarity {cosine}"],
  wordsTitle: ["단어별 기여도", "Contribution of each word"],
  wordNote: ["단어 아래의 숫자는 그 단어를 뺐을 때 유사도가 낮아지는 정도입니다.", "The number below a word is the drop in similarity without that word."],
  wordFor: ["‘{word}’을(를) 빼면 유사도가 {effect} 낮아집니다.", "Without “{word}”, the similarity drops by {effect}."],
  wordAgainst: ["‘{word}’을(를) 빼면 유사도가 {effect} 높아집니다.", "Without “{word}”, the similarity rises by {effect}."],
  legendFor: ["유사도를 높이는 단어", "increases similarity"],
  legendAgainst: ["유사도를 낮추는 단어", "decreases similarity"],
  compareEmpty: ["두 문장을 모두 입력하면 결과가 표시됩니다.", "Enter both sentences to see the result."],

  heatmapTitle: ["여러 문장의 유사도", "Similarity of several sentences"],
  heatmapLead: ["한 줄에 한 문장씩 2~50개를 입력하세요.", "Enter 2 to 50 sentences, one per line."],
  heatmapLabel: ["문장 목록", "Sentences"],
  heatmapCount: ["문장 {count}개", "{count} sentences"],
  reorder: ["비슷한 문장끼리 모으기", "Group similar sentences"],
  heatmapTooFew: ["문장을 두 개 이상 입력하세요.", "Enter at least two sentences, one per line."],
  heatmapTooMany: ["한 번에 50개까지 비교할 수 있습니다. (현재 {count}개)", "You can compare up to 50 sentences; there are {count} now."],
  heatmapClosest: ["가장 비슷한 쌍: {first}번과 {second}번 (코사인 유사도 {cosine})", "Most similar pair: {first} and {second} (cosine similarity {cosine})"],
  heatmapCorner: ["문장", "Sentence"],

  searchTitle: ["의미 검색", "Semantic search"],
  searchLead: ["인덱스에 있는 문장 {count}개를 의미가 가까운 순서로 찾습니다.", "Finds the sentences closest in meaning, from an index of {count}."],
  searchNoIndex: ["아직 인덱스가 없습니다. 문장 파일만 있으면 만들 수 있습니다.", "There is no index yet. Build one from a file of sentences:"],
  queryLabel: ["검색어", "Query"],
  filterLabel: ["필터", "Filter"],
  filterNote: ["사용할 수 있는 필드: {fields} (예: {example})", "Fields: {fields}. Example: {example}"],
  filterValue: ["값", "value"],
  hybrid: ["키워드 검색(BM25) 함께 사용", "Combine with keyword search (BM25)"],
  searchNoHits: ["검색 결과가 없습니다.", "No results."],
  searchHits: ["검색 결과 {count}건", "{count} results."],
  why: ["이유", "Why?"],
  whyLabel: ["‘{text}’와(과) 비교하기", "Compare with “{text}”"],

  clustersTitle: ["문장 군집 지도", "Map of sentence clusters"],
  clustersLead: ["의미가 비슷한 문장일수록 가까이 있습니다. 점을 가리키거나 목록에서 군집을 선택하세요.", "Sentences with similar meaning are close together. Point at a dot, or select a cluster from the list."],
  method: ["군집화 방법", "Method"],
  kmeans: ["k-means", "k-means"],
  agglomerative: ["계층적 군집화", "Agglomerative"],
  hdbscan: ["HDBSCAN", "HDBSCAN"],
  nClusters: ["군집 수", "Clusters"],
  nClustersNote: ["0이면 자동으로 정합니다.", "0 chooses automatically."],
  clusterAgain: ["다시 군집화", "Cluster again"],
  clustersRunning: ["군집화하고 있습니다. 처음에는 몇 초 걸릴 수 있습니다.", "Clustering. The first run may take a few seconds."],
  clustersSlow: ["문장이 많아 시간이 걸리고 있습니다. 조금만 더 기다려 주세요.", "There are many sentences, so this takes a while. Still waiting."],
  clustersDone: ["문장 {sentences}개를 군집 {count}개로 나누었습니다.", "{sentences} sentences in {count} clusters."],
  clusterList: ["군집", "Clusters"],
  noise: ["군집에 속하지 않음", "not in a cluster"],
  clusterUnnamed: ["군집 {number}", "Cluster {number}"],
  mapLabel: ["문장 군집 지도. 군집별 내용은 목록에서 볼 수 있습니다.", "Map of sentence clusters; the list describes each cluster."],
  mapHint: ["점을 가리키거나 누르면 문장이 표시됩니다.", "Point at a dot or tap it to read its sentence."],

  fileTitle: ["파일 임베딩", "Embed a file"],
  fileLead: ["파일은 브라우저에서 읽습니다. 선택한 열의 문장만 서버로 보내고, 임베딩을 CSV 파일로 내려받습니다.", "Your browser reads the file. Only the sentences of the selected column are sent to this server; the embeddings are downloaded as CSV."],
  dropHere: ["CSV·TSV·TXT 파일을 여기에 끌어다 놓으세요", "Drop a CSV, TSV or TXT file here"],
  chooseFile: ["파일 선택", "Choose a file"],
  fileEncodings: ["UTF-8과 CP949(엑셀) 인코딩을 지원합니다.", "Supports UTF-8 and CP949 (Korean Excel)."],
  fileEmpty: ["{name}에 문장이 없습니다.", "{name} contains no sentences."],
  fileUnreadable: ["{name} 파일을 읽을 수 없습니다. 텍스트 파일인지 확인해 주세요.", "{name} cannot be read. Is it a text file?"],
  fileOpenQuote: ["{line}번째 줄에서 열린 따옴표가 닫히지 않았습니다.", "The quotation mark opened on line {line} is never closed."],
  fileRows: ["{rows}행 · {encoding}", "{rows} rows · {encoding}"],
  fileRowsBlank: ["{rows}행 · {encoding} · 빈 행 {blank}개 제외", "{rows} rows · {encoding} · {blank} blank rows skipped"],
  column: ["문장 열", "Sentence column"],
  columnNumber: ["{number}번째 열", "Column {number}"],
  header: ["첫 행은 머리글", "First row is a header"],
  truncate: ["너무 긴 문장은 뒷부분 자르기", "Truncate sentences that are too long"],
  preview: ["미리 보기", "Preview"],
  fileStart: ["임베딩 생성", "Create embeddings"],
  cancel: ["취소", "Cancel"],
  download: ["임베딩 CSV 내려받기", "Download embeddings as CSV"],
  progress: ["진행률", "Progress"],
  fileProgress: ["{done} / {rows}행 · 초당 {speed}문장", "{done} of {rows} rows · {speed} per second"],
  fileBusy: ["서버가 혼잡합니다. {seconds}초 후 다시 시도합니다. ({done} / {rows}행)", "The server is busy; retrying in {seconds} s. ({done} of {rows} rows)"],
  fileOffline: ["서버에 다시 연결되기를 기다리고 있습니다. ({done} / {rows}행)", "Waiting for the server to come back. ({done} of {rows} rows)"],
  fileKey: ["API 키를 기다리고 있습니다. ({done} / {rows}행)", "Waiting for the API key. ({done} of {rows} rows)"],
  fileDone: ["완료되었습니다. 문장 {vectors}개, {dimensions}차원", "Done: {vectors} sentences, {dimensions} dimensions."],
  fileCancelled: ["{done}행까지 처리하고 중지했습니다.", "Stopped after {done} rows."],
  fileFailed: ["실패한 행이 너무 많아 {done}행에서 중지했습니다.", "Too many rows failed; stopped after {done} rows."],
  failedRows: ["임베딩을 만들지 못한 행", "Rows without an embedding"],
  failedRow: ["{row}행", "Row {row}"],
  fileTooLarge: ["{name}({size} MB)은(는) 브라우저에서 처리하기에 너무 큽니다. kosbert encode를 사용하세요.", "{name} ({size} MB) is too large for a browser: use kosbert encode."],

  busy: ["서버가 혼잡합니다. {seconds}초 후 다시 시도합니다.", "The server is busy; retrying in {seconds} s."],
  offline: ["서버에 연결할 수 없습니다. 연결되면 자동으로 계속합니다.", "The server cannot be reached. The page continues automatically when it is back."],
  online: ["서버에 다시 연결되었습니다.", "The server is back."],
  bodyTooLarge: ["입력이 너무 깁니다. 이 서버는 한 번에 {bytes}바이트까지 받습니다.", "The input is too long: this server accepts {bytes} bytes per request."],
  error400: ["처리할 수 없는 입력입니다.", "The server cannot process this input."],
  error401: ["API 키가 필요합니다.", "An API key is required."],
  error404: ["이 서버에서 지원하지 않는 기능입니다.", "This server does not support this."],
  error413: ["입력이 너무 깁니다.", "The input is too long."],
  error504: ["요청 시간이 초과되었습니다.", "The request timed out."],
  error: ["서버에서 오류가 발생했습니다.", "The server failed."],
  about: ["{model} · {dimensions}차원 · 최대 {length}토큰 · {backend} · kosbert {version}", "{model} · {dimensions} dimensions · up to {length} tokens · {backend} · kosbert {version}"],
};

const LANGUAGES = ["ko", "en"];
const STORAGE_KEY = "kosbert-language";
let language = storedLanguage() ?? (navigator.languages ?? [navigator.language]).map(tag => tag.slice(0, 2)).find(tag => LANGUAGES.includes(tag)) ?? "en";

function storedLanguage() {
  try {
    const stored = localStorage.getItem(STORAGE_KEY);
    return LANGUAGES.includes(stored) ? stored : null;
  } catch { return null; }
}

export const otherLanguage = () => LANGUAGES.find(tag => tag !== language);

export function setLanguage(tag) {
  language = tag;
  try { localStorage.setItem(STORAGE_KEY, tag); } catch { /* storage may be disabled */ }
}

/** Return a text in the current language. */
export function t(name, values = {}) {
  if (!(name in STRINGS)) throw new Error(`no string named ${name}`);
  return STRINGS[name][LANGUAGES.indexOf(language)].replace(/\{(\w+)\}/g, (_, slot) => {
    const value = values[slot];
    return typeof value === "number" ? formatInteger(value) : String(value);
  });
}

/** Fill in the texts of the document: data-i18n for the content, data-i18n-label for the accessible name. */
export function translateDocument() {
  document.documentElement.lang = language;
  for (const element of document.querySelectorAll("[data-i18n]")) element.textContent = t(element.dataset.i18n);
  for (const element of document.querySelectorAll("[data-i18n-label]")) element.setAttribute("aria-label", t(element.dataset.i18nLabel));
}

export const formatInteger = value => value.toLocaleString(language);

/** Format a number with a real minus sign; `signed` adds a plus sign as well. */
export function formatDecimal(value, digits, { signed = false } = {}) {
  const text = Math.abs(value).toFixed(digits);
  if (Number(text) === 0) return text;
  return value < 0 ? `\u2212${text}` : signed ? `+${text}` : text;
}
