// Updates the open page: the server makes every page, and this replaces what differs,
// so focus, forms and scroll positions stay.

// The only place where text becomes markup. Our server has escaped it, and a parsed
// document runs no script.
const rules = window.trustedTypes?.createPolicy('askance', { createHTML: (text) => text });
const parse = (text) => new DOMParser().parseFromString(rules ? rules.createHTML(text) : text, 'text/html');

const $ = (id) => document.getElementById(id);

// What the server sent for an element. Scripts change elements (clocks, disabled
// buttons), so the sent text is compared.
const origin = new WeakMap();
export const made = (el) => origin.get(el) ?? el.outerHTML;
export const keep = (el) => { origin.set(el, el.outerHTML); return el; };

/** Has the next page replace an element that a script changed. */
export const forget = (el) => { if (el) origin.delete(el); };

/** Records the page as it was loaded. */
export function remember() {
  for (const el of document.querySelectorAll('[data-region]')) keep(el);
  for (const el of document.querySelectorAll('.rows > li')) keep(el);
}

/** Requests a page. A reply with any status is a page. */
export async function ask(url, options = {}) {
  const res = await fetch(url, { credentials: 'same-origin', redirect: 'follow', ...options, headers: { Accept: 'text/html', ...options.headers } });
  if (!(res.headers.get('Content-Type') ?? '').startsWith('text/html')) {
    let detail = '';
    try { detail = (await res.json()).detail ?? ''; } catch { /* no JSON either */ }
    const err = new Error(detail || `the server answered ${res.status}`);
    err.status = res.status;
    throw err;
  }
  const doc = parse(await res.text());
  const alert = doc.querySelector('main.alone [role=alert]'); // an error outside of the console
  if (!res.ok && alert) throw Object.assign(new Error(alert.textContent), { status: res.status });
  return { doc, url: res.url, status: res.status };
}

let fresh; // whether a person, and not a change, requested the page

/** Updates what is around the main part. */
export function around(doc) {
  for (const id of ['rail', 'dock']) exchangeAll($(id), doc.getElementById(id));
  const open = /^\(\d+\) /;
  document.title = (open.exec(doc.title)?.[0] ?? '') + document.title.replace(open, '');
}

// What the Tab key reaches, and what tells one of them from others next to it.
const stops = 'a[href], button, input, select, textarea, summary, [tabindex]';
const mark = (el) => [el.tagName, ...['href', 'name', 'value', 'aria-label'].map((k) => el.getAttribute(k))].join(' ');

/**
 * Makes a change that does not lose the focus: the same link or field has it again. If a link
 * is gone, the one in its place has it. A button never takes the place of another.
 */
export function keepFocus(change) {
  const el = document.activeElement, home = el?.closest('[id]'), region = el?.closest('[data-region], #main');
  const twins = () => [...$(home.id)?.querySelectorAll(stops) ?? []].filter((e) => mark(e) === mark(el));
  const links = () => [...$(region.id)?.querySelectorAll(region.id === 'rows-box' ? '.row' : 'a[href]') ?? []];
  const nth = home && twins().indexOf(el), place = region ? links().indexOf(el.closest('li')?.querySelector('.row') ?? el) : -1;
  change();
  if (!home || document.activeElement !== document.body) return;
  const same = home === el ? $(el.id) : twins()[nth];
  const near = place < 0 ? $(region?.id)?.querySelector('[tabindex="-1"]') : links()[Math.min(place, links().length - 1)];
  (same ?? near ?? $('title') ?? $('main'))?.focus({ preventScroll: true });
}

/** Updates the open page to another one. */
export function show(doc, asked = false) {
  fresh = asked;
  keepFocus(() => update(doc, asked));
}

function update(doc, asked) {
  document.title = doc.title;
  document.body.dataset.nav = doc.body.dataset.nav ?? '';
  for (const id of ['rail', 'dock']) exchangeAll($(id), doc.getElementById(id));
  if (asked && $('rail').matches(':popover-open')) $('rail').hidePopover();
  const now = document.querySelector('.panes'), then = doc.querySelector('.panes');
  if (now && then) {
    now.dataset.view = then.dataset.view;
    exchangeAll(now.querySelector('.side'), then.querySelector('.side'));
    side(then);
    selection(now.querySelector('.side'), then);
    const main = $('main'), next = doc.getElementById('main');
    if (main.dataset.page === next.dataset.page) {
      regions(main, next);
      if (next.dataset.href) main.dataset.href = next.dataset.href;
    } else { main.replaceWith(next); window.scrollTo(0, 0); for (const el of next.querySelectorAll('[data-region]')) keep(el); }
  } else if (document.getElementById('main')?.dataset.page === doc.getElementById('main')?.dataset.page) {
    regions($('main'), doc.getElementById('main'));
    exchangeAll($('main'), doc.getElementById('main'));
  } else {
    const old = now ?? $('main'), next = then ?? doc.getElementById('main');
    old.replaceWith(next);
    window.scrollTo(0, 0);
    remember();
  }
}

// A person may be typing in the filter: a form with the focus is not updated.
function side(then) {
  const now = $('filter'), next = then.querySelector('#filter');
  if (now && next && !now.contains(document.activeElement)) exchange(now, next);
}

// Only the tab of open requests has the form that selects.
function selection(now, then) {
  const form = then.querySelector('#bulk');
  if (!form) $('bulk')?.remove();
  else if (!$('bulk')) { keep(form); now.append(form); }
}

function exchangeAll(now, then) {
  if (!now || !then) return;
  for (const el of [...now.querySelectorAll('[data-region]')]) {
    const next = el.id && then.querySelector('#' + CSS.escape(el.id));
    if (next) exchange(el, next);
  }
}

// Replaces, adds and removes the regions of a main part.
function regions(now, then) {
  const children = [...then.children];
  const wanted = new Set(children.map((c) => c.id).filter(Boolean));
  for (const c of [...now.children]) if (c.id && !wanted.has(c.id)) c.remove();
  let at = now.firstElementChild;
  for (const next of children) {
    const old = next.id ? now.querySelector(':scope > #' + CSS.escape(next.id)) : null;
    if (!old) {
      if (!next.id) { at = at?.nextElementSibling ?? null; continue; }
      keep(next);
      now.insertBefore(next, at);
      continue;
    }
    at = old.nextElementSibling;
    if (old.id === 'act') form(old, next);
    else exchange(old, next);
  }
}

// An open form stays as long as it is for the same approval request.
function form(old, next) {
  const open = old.querySelector('[data-form]'), then = next.querySelector('[data-form]');
  if (open && then && open.dataset.form === then.dataset.form) {
    open.elements.csrf.value = then.elements.csrf.value; // of a new login
    return;
  }
  if (open && !then && next.querySelector('#bar') === null && old.dataset.keep) return;
  const draft = open && then?.dataset.form.endsWith('stale') ? drafts(open) : '';
  if (made(old) === next.outerHTML) return;
  keep(next);
  old.replaceWith(next);
  if (draft) {
    const box = Object.assign(document.createElement('details'), { open: true });
    box.append(Object.assign(document.createElement('summary'), { textContent: 'Your text (not sent)' }));
    box.append(Object.assign(document.createElement('pre'), { className: 'raw', textContent: draft, tabIndex: 0 }));
    next.querySelector('#gone')?.after(box);
  }
}

/** Returns the text of a form that was not sent. */
export function drafts(open) {
  return [...open.querySelectorAll('textarea, input:not([type])')].filter((f) => f.value.trim() && f.value !== f.defaultValue).map((f) => f.value).join('\n\n');
}

export function exchange(old, next) {
  if (old.id === 'rows-box' && old.querySelector('.rows') && next.querySelector('.rows')) return list(old, next);
  if (made(old) === next.outerHTML && !(fresh && old.id === 'flash')) return;
  if (old.id === 'flash' && !fresh && !next.textContent.trim()) return; // a message to the person stays until their next action
  for (const d of old.querySelectorAll('details[id]')) {
    const same = next.querySelector('#' + CSS.escape(d.id));
    if (same && d.dataset.touched) { same.open = d.open; same.dataset.touched = '1'; }
  }
  const log = old.querySelector('[data-log]'), then = next.querySelector('[data-log]');
  keep(next);
  if (log && then && log.dataset.log === then.dataset.log) merge(log, then);
  old.replaceWith(next);
}

// Progress lines from the stream stay, even if the server no longer has them.
function merge(log, then) {
  const have = new Set([...then.children].map((l) => l.dataset.n));
  for (const l of [...log.children]) if (!have.has(l.dataset.n)) then.append(l);
}

// Replaces rows one by one: an equal row stays, with its focus.
function list(old, next) {
  const rows = old.querySelector('.rows'), then = next.querySelector('.rows');
  for (const k of ['first', 'next']) if (k in then.dataset) rows.dataset[k] = then.dataset[k]; else delete rows.dataset[k];
  const byId = new Map([...rows.children].map((li) => [li.id, li]));
  let at = rows.firstElementChild;
  for (const li of [...then.children]) {
    const have = byId.get(li.id);
    byId.delete(li.id);
    if (have && made(have) === li.outerHTML) {
      if (have === at) at = at.nextElementSibling;
      else rows.insertBefore(have, at);
      continue;
    }
    keep(li);
    if (have) {
      if (have === at) at = at.nextElementSibling;
      have.remove();
      rows.insertBefore(li, at);
    } else {
      if (!fresh) li.classList.add('fresh');
      rows.insertBefore(li, at);
    }
  }
  for (const li of byId.values()) li.remove();
  for (const part of ['.conditions', '#pages-bar']) {
    const was = old.querySelector(part), is = next.querySelector(part);
    if (was && is) was.replaceWith(is);
    else if (is) rows.before(is);
    else was?.remove();
  }
}

/** Parses a part of a page. */
export const piece = (text) => [...parse(text).body.childNodes];
