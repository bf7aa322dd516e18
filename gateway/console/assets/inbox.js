// The list of the inbox: a changed call costs its row, rows can be selected, and new
// requests can be reported by the desktop.

import { exchange, forget, keep, keepFocus, made, piece } from './page.js';

const $ = (id) => document.getElementById(id);
const rows = () => document.querySelector('.rows');
const place = ['session', 'reply', 'call', 'do', 'digest', 'sent', 'was', 'did', 'explain', 'revise', 'token'];

let hooks; // of the page: go, reload, say

// ---- rows that changed

const wanted = new Map(); // id: the name of the call
let timer, running;

/** Takes a change; false: the page must be read again. */
export function changed(c) {
  if (c.new) report(c);
  if (!$('side')) return false;
  const main = $('main'), session = new URLSearchParams(c.key).get('session');
  if (main.dataset.call === c.id || main.dataset.session === session) return false;
  wanted.set(c.id, c.key);
  clearTimeout(timer);
  timer = setTimeout(update, running ? 200 : 60);
  return true;
}

async function update() {
  if (running) { timer = setTimeout(update, 100); return; }
  const calls = new Map(wanted), here = location.href;
  wanted.clear();
  if (calls.size > 20 || !rows()) { hooks.reload(); return; }
  running = true;
  try {
    const part = await read([...calls.values()], new URLSearchParams(location.search));
    keepFocus(() => { if (here === location.href && !apply(part, calls)) hooks.reload(); });
  } catch {
    hooks.reload();
  }
  running = false;
}

async function read(names, q) {
  for (const k of place) q.delete(k);
  for (const k of names) q.append('k', k);
  const res = await fetch($('side')?.dataset.rows + '?' + q, { headers: { Accept: 'text/html' } });
  if (!res.ok) throw new Error('no rows');
  return piece(await res.text()).find((n) => n.nodeType === 1);
}

// Puts rows into their places; false: only the engine knows them.
function apply(part, calls) {
  const list = rows();
  if (!list) return false;
  for (const id of calls.keys()) {
    const old = $('li-' + id), next = part.querySelector('#' + CSS.escape('li-' + id));
    if (next && old && old.dataset.order === next.dataset.order) {
      if (made(old) !== next.outerHTML) old.replaceWith(keep(next));
      continue;
    }
    if (next && (!next.dataset.order || list.querySelector('[data-head]'))) return false;
    old?.remove();
    if (next && !insert(list, keep(next))) continue;
  }
  for (const head of list.querySelectorAll('[data-head]')) if (!head.nextElementSibling || 'head' in head.nextElementSibling.dataset) head.remove();
  const shown = list.querySelectorAll('.row').length;
  if (!shown || shown > 140 || (list.dataset.next && shown < 60)) return false;
  exchange($('tabs'), part.querySelector('#tabs'));
  const first = Number(list.dataset.first), total = Number(part.dataset.total), all = $('pick-all');
  if ($('rows-count')) $('rows-count').textContent = `${(first + 1).toLocaleString('en')}–${(first + shown).toLocaleString('en')} of ${total.toLocaleString('en')}`;
  if (all) {
    all.hidden = total < 2;
    all.querySelector('span').textContent = `All ${total.toLocaleString('en')} that match`;
  }
  document.title = document.title.replace(/^(\(\d+\) )?/, Number(part.dataset.open) ? `(${part.dataset.open}) ` : '');
  for (const a of document.querySelectorAll('#to-inbox, .dock a[href="/inbox"]')) {
    a.querySelector('.count')?.remove();
    const n = part.querySelector(':scope > .count');
    if (n) a.append(n.cloneNode(true));
  }
  forget($('rail-pages'));
  forget($('dock-pages'));
  restore();
  return true;
}

function insert(list, li) {
  const all = [...list.children];
  const at = all.find((o) => o.dataset.order > li.dataset.order);
  if (!at && list.dataset.next) return false; // it is on a later page
  if (at === all[0] && Number(list.dataset.first)) return false; // on an earlier one
  li.classList.add('fresh');
  list.insertBefore(li, at ?? null);
  return true;
}

// ---- selection

const picked = new Set(); // ids of the items of boxes
let last, allOf; // allOf: the filter whose calls are all selected
const filter = () => new URLSearchParams(new FormData($('bulk'))).toString().replace(/&?(k|all)=[^&]*/g, '');

const boxes = () => [...document.querySelectorAll('.pick')];

function restore() {
  const call = $('main').dataset.call;
  for (const row of document.querySelectorAll('.row')) row.classList.toggle('selected', row.dataset.row === call);
  for (const b of boxes()) b.checked = picked.has(b.parentElement.id);
  for (const id of picked) if (!$(id)) picked.delete(id);
  const all = $('bulk')?.querySelector('[name=all]');
  if (all) all.checked = allOf === filter();
  count();
}

function count() {
  const form = $('bulk');
  if (!form) return;
  const all = Boolean(form.querySelector('[name=all]')?.checked);
  form.classList.toggle('active', picked.size > 0 || all);
  for (const b of form.querySelectorAll('[name=do]')) b.disabled = !picked.size && !all;
  $('pick-none').hidden = !picked.size && !all;
  $('picked').textContent = all ? 'All that match' : picked.size ? `${picked.size} selected` : 'Select with x or the checkboxes.';
}

function pick(box, on, range) {
  const all = boxes(), from = range ? all.findIndex((b) => b.parentElement.id === last) : -1, to = all.indexOf(box);
  for (const b of from < 0 ? [box] : all.slice(Math.min(from, to), Math.max(from, to) + 1)) {
    b.checked = on;
    if (on) picked.add(b.parentElement.id); else picked.delete(b.parentElement.id);
  }
  last = box.parentElement.id;
  count();
}

/** Removes the selection; reports whether there was one. */
export function clear() {
  const some = $('bulk')?.classList.contains('active');
  picked.clear();
  allOf = undefined;
  restore();
  return Boolean(some);
}

/** Selects the row with the focus, or the open one. */
export function toggle() {
  const row = document.activeElement.closest?.('.row') ?? document.querySelector('.row.selected');
  const box = row?.parentElement.querySelector('.pick');
  if (box) pick(box, !box.checked);
}

/** Opens the confirmation for the selection; false: nothing is selected. */
export function respond(key) {
  const button = { a: 'approve', r: 'reject' }[key];
  const b = button && $('bulk')?.classList.contains('active') && document.querySelector(`#bulk [name=do][value=${button}]`);
  if (b) b.click();
  return Boolean(b);
}

// ---- the open call

const wide = () => matchMedia('(min-width: 1101px)').matches;
let soon;

/** Opens the call of a row next to the list, with a form or after a moment. */
export function preview(row, form) {
  clearTimeout(soon);
  if (!wide() && !form) return;
  const url = row.href + (form ? '&do=' + form + '#act' : '');
  soon = setTimeout(() => {
    if (row.dataset.row === $('main').dataset.call && !form) return;
    history.replaceState(null, '', url);
    hooks.go(url, { push: false, focus: Boolean(form) });
  }, form ? 0 : 120);
}

/** Cancels a preview that has not begun: the person opens a page. */
export function cancelPreview() { clearTimeout(soon); }

/** Goes back to the list. */
export function leave() {
  if (!wide()) $('back')?.click();
  else document.querySelector('.row.selected')?.focus();
}

// ---- notifications

/** Whether the person wants notifications. */
export const notifies = () => 'Notification' in window && Notification.permission === 'granted' && localStorage.getItem('askance-notify') === '1';

function label() {
  const b = $('notify');
  if (!b) return;
  b.hidden = !('Notification' in window) || Notification.permission === 'denied';
  b.textContent = notifies() ? 'Notifications on' : 'Notify me';
  b.setAttribute('aria-pressed', String(notifies()));
}

async function flip() {
  if (notifies()) localStorage.removeItem('askance-notify');
  else if (await Notification.requestPermission() === 'granted') localStorage.setItem('askance-notify', '1');
  label();
  hooks.say(notifies() ? 'Notifications are on.' : 'Notifications are off.');
}

// Reports a new request that waits for this person while they look at something else.
async function report(c) {
  if (!notifies() || document.hasFocus() && !document.hidden) return;
  try {
    const part = piece(await (await fetch('/inbox/rows?' + new URLSearchParams({ mine: '1', k: c.key }), { headers: { Accept: 'text/html' } })).text()).find((n) => n.nodeType === 1);
    const row = part?.querySelector('[data-mine] .row');
    if (!row) return;
    const n = new Notification('Approval requested', { body: row.querySelector('.row-text').textContent, tag: c.id });
    n.onclick = () => { window.focus(); hooks.go(row.href); n.close(); };
  } catch { /* the list still shows it */ }
}

/** Prepares a page: the first request of a wide inbox becomes the open one. */
export function ready() {
  const panes = document.querySelector('.panes'), main = $('main');
  if (panes?.dataset.view === 'list' && main.dataset.href && wide()) {
    panes.dataset.view = 'card';
    history.replaceState(history.state, '', main.dataset.href);
  }
  restore();
  label();
}

/** Handles clicks on rows and boxes. */
export function start(h) {
  hooks = h;
  document.addEventListener('click', (e) => {
    const box = e.target.closest('.pick'), row = e.target.closest('.row');
    if (box) { pick(box, box.checked, e.shiftKey); return; }
    const near = e.shiftKey && row?.parentElement.querySelector('.pick');
    if (near) { e.preventDefault(); getSelection().removeAllRanges(); pick(near, true, true); return; }
    const all = e.target.closest('#pick-all input');
    if (all) { allOf = all.checked ? filter() : undefined; count(); }
    if (e.target.closest('#pick-none')) clear();
    if (e.target.closest('#notify')) flip();
  }, true);
}
