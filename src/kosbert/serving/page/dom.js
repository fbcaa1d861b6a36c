// The few things that every part of the page does to the document. Users' text only ever enters as text.

export const get = id => document.getElementById(id);

/** An element: `text`, `on` and `style` (custom properties) are special, all else is an attribute. */
export function make(tag, { text, on = {}, style = {}, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  for (const [name, value] of Object.entries(style)) element.style.setProperty(name, value);
  for (const [name, listener] of Object.entries(on)) element.addEventListener(name, listener);
  if (text !== undefined) element.textContent = text;
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}

export const show = (element, visible = true) => { element.hidden = !visible; };

/** Say something to screen readers, once; the same words again are said again. */
export function announce(words) {
  const place = get("announce");
  place.textContent = place.textContent === words ? `${words}\u00a0` : words;
}

/** Arrow keys, Home and End move between the items of a list that is one stop of the Tab key. */
export function rove(list, selector, moved = () => {}) {
  list.addEventListener("keydown", event => {
    const items = [...list.querySelectorAll(selector)];
    const place = items.indexOf(document.activeElement);
    const steps = { ArrowRight: place + 1, ArrowDown: place + 1, ArrowLeft: place - 1, ArrowUp: place - 1, Home: 0, End: -1 };
    if (place < 0 || !(event.key in steps) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const next = items.at(steps[event.key] % items.length);
    for (const item of items) item.tabIndex = item === next ? 0 : -1;
    next.focus();
    moved(next);
  });
}

/** Call after the last of many calls; `now()` does not wait. */
export function debounced(work, milliseconds) {
  let timer;
  const later = () => { clearTimeout(timer); timer = setTimeout(work, milliseconds); };
  later.now = () => { clearTimeout(timer); return work(); };
  return later;
}

/** Work of which only the latest counts: a new call aborts the one before, whose answer is never shown. */
export function latest(work) {
  let current = null;
  return async (...given) => {
    current?.abort();
    const mine = current = new AbortController();
    try {
      await work(mine.signal, ...given);
    } catch (error) {
      if (!mine.signal.aborted) throw error;
    }
  };
}
