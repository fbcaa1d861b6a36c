// DOM helpers. User input is only ever inserted as text.

export const byId = id => document.getElementById(id);

/** Create an element. `text`, `on` and `style` (custom properties) are special; everything else is an attribute. */
export function create(tag, { text, on = {}, style = {}, ...attributes } = {}, ...children) {
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

/** Announce a message to screen readers; the same message twice is announced twice. */
export function announce(message) {
  const region = byId("announce");
  region.textContent = region.textContent === message ? `${message}\u00a0` : message;
}

/** Roving tabindex: arrow keys, Home and End move between the items of a list that is one stop of the Tab key. */
export function rovingTabindex(list, selector, onMove = () => {}) {
  list.addEventListener("keydown", event => {
    const items = [...list.querySelectorAll(selector)];
    const index = items.indexOf(document.activeElement);
    const targets = { ArrowRight: index + 1, ArrowDown: index + 1, ArrowLeft: index - 1, ArrowUp: index - 1, Home: 0, End: -1 };
    if (index < 0 || !(event.key in targets) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const next = items.at(targets[event.key] % items.length);
    for (const item of items) item.tabIndex = item === next ? 0 : -1;
    next.focus();
    onMove(next);
  });
}

/** Call `callback` after the last of many calls; `now()` calls it at once. */
export function debounce(callback, milliseconds) {
  let timer;
  const debounced = () => { clearTimeout(timer); timer = setTimeout(callback, milliseconds); };
  debounced.now = () => { clearTimeout(timer); return callback(); };
  return debounced;
}

/** Wrap an async function so that a new call aborts the previous one, whose result is discarded. */
export function latestOnly(callback) {
  let controller = null;
  return async (...args) => {
    controller?.abort();
    const { signal } = controller = new AbortController();
    try {
      await callback(signal, ...args);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  };
}
