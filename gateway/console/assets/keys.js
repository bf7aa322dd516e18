// Keyboard shortcuts. They do not work in text fields.

import { clear, leave, preview, respond, toggle } from './inbox.js';

const $ = (id) => document.getElementById(id);
const writes = (el) => el.matches('input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]');

function rows() { return [...document.querySelectorAll('.row')]; }

// Moves from the focused row, or else from the selected one.
function move(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((r) => r === document.activeElement);
  const from = at >= 0 ? at : all.findIndex((r) => r.classList.contains('selected'));
  const to = from < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, from + step));
  all[to].focus();
  all[to].scrollIntoView({ block: 'nearest' });
  preview(all[to]);
}

// The next request after the open one that waits for this person.
function next() {
  const all = [...document.querySelectorAll('[data-mine] .row')], at = all.findIndex((r) => r.classList.contains('selected'));
  return all[at + 1] ?? all.find((r) => !r.classList.contains('selected'));
}

function escape() {
  const close = document.querySelector('#panel [data-close]');
  if (close) close.click();
  else if (writes(document.activeElement)) document.activeElement.blur();
  else if (!clear()) leave();
}

// The responses to the row with the focus, if another call is open.
const responses = { a: 'approve', e: 'edit', r: 'reject', t: 'respond', h: 'delegate', s: 'skip' };

const plain = {
  j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
  n: () => ($('next') ?? next())?.click(),
  x: toggle,
  v: () => { const d = $('raw'); if (d) { d.open = !d.open; d.dataset.touched = '1'; } },
  m: () => $('mine')?.click(),
  '/': () => { const q = $('q') ?? document.querySelector('main [type=search]'); if (q) { q.focus(); q.select(); } else $('find-open').click(); },
  g: () => { going = true; setTimeout(() => { going = false; }, 1500); },
  '?': () => $('help').showModal(),
};

let going = false; // g was pressed: the next key names a page

/** Handles keys. */
export function listen() {
  document.addEventListener('keydown', (e) => {
    if (e.isComposing || document.querySelector('dialog[open]')) return;
    if (e.repeat && e.key === 'Enter' && (e.ctrlKey || e.metaKey || !writes(e.target))) { e.preventDefault(); return; } // what opened a form must not send it
    if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) {
      const go = document.querySelector(e.shiftKey ? '#panel .next-action' : '.main-action');
      if (go && !go.disabled) { e.preventDefault(); go.click(); }
      return;
    }
    if (e.key === 'k' && (e.ctrlKey || e.metaKey)) { e.preventDefault(); $('find-open').click(); return; }
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const both = e.key === 'Enter' && e.shiftKey && !writes(e.target) && document.querySelector('#panel .next-action:not(:disabled)');
    if (both) { e.preventDefault(); both.click(); return; }
    if (e.key === 'Escape') { e.preventDefault(); escape(); return; }
    if (writes(e.target)) return;
    if (e.key.startsWith('Arrow') && !e.target.matches('.row, body')) return;
    const page = going && document.querySelector(`[data-go="${CSS.escape(e.key)}"]`);
    going = false;
    if (page) { e.preventDefault(); page.click(); return; }
    if (respond(e.key)) { e.preventDefault(); return; }
    const row = responses[e.key] && document.activeElement.closest('.row:not(.selected)');
    if (row) { e.preventDefault(); preview(row, responses[e.key]); return; }
    const act = document.querySelector(`#bar [data-key="${CSS.escape(e.key)}"]`);
    const f = act ? () => act.click() : plain[e.key];
    if (f) { e.preventDefault(); f(); }
  });
}
