// The script of the console. Every page works without it; it makes them live.

import { around, ask, drafts, piece, remember, show } from './page.js';
import * as stream from './live.js';
import { tick } from './clock.js';
import { listen } from './keys.js';
import { prepare as prepareAudit } from './audit.js';
import { find } from './find.js';
import * as inbox from './inbox.js';

const $ = (id) => document.getElementById(id);
const say = (text) => { $('said').textContent = ''; requestAnimationFrame(() => { $('said').textContent = text; }); };

const seen = new Set(); // digests of what was on the screen to the end of its arguments
let visit = 0; // counts page requests: a reply to an older one is dropped
let sending = false;
let awaited = 0; // the last page request without a reply; until then the form on the screen is not the one that the person asked for
const opening = () => awaited > 0 && awaited === visit;

// Whether it is the log-in page, or another person's after a login in another tab.
const isOthers = (doc) => !doc.querySelector('#main[data-page]') || doc.body.dataset.who !== document.body.dataset.who;

// Awaits a page request. Until its reply, no form is sent.
function expect(mine, reply) {
  awaited = mine;
  guard();
  return reply.finally(() => { if (awaited === mine) awaited = 0; guard(); });
}

/** Opens a page of this server without a full load. Returns whether there was a reply. */
async function go(url, { push = true, focus = true, options } = {}) {
  const mine = ++visit;
  inbox.cancelPreview();
  try {
    const page = await expect(mine, ask(url, options));
    if (mine !== visit) return true;
    if (isOthers(page.doc)) { location.href = page.url; return true; }
    const hash = new URL(url, location).hash;
    const stays = options && new URL(page.url).pathname === new URL(url, location).pathname; // a form that was not accepted
    if (push && !stays) history.pushState(null, '', page.url.split('#')[0] + (options ? '' : hash));
    show(page.doc, true);
    ready();
    if (focus) land();
    return true;
  } catch (err) {
    const matters = mine === visit || options; // a response also if another page was opened meanwhile
    if (matters && err.status === 401) stream.reopen(); // it says that the login has ended
    else if (matters) fail(wentWrong(err, options));
    stream.live || say('not connected');
    return false;
  }
}

function wentWrong(err, sent) {
  const why = err.message.replace(/\.$/, '');
  if (!sent) return `The page cannot be loaded: ${why}.`;
  return err.status < 500 ? `Not accepted: ${why}.` : `The response may not have arrived: ${why}. Reload the page before you send it again.`;
}

// Moves the focus into the form, or to the heading.
function land() {
  if ('still' in $('main').dataset) { $('title').focus(); return; } // a list to read from its beginning
  const field = document.querySelector('#panel textarea, #panel input:not([type=hidden]):not([type=radio]):not([type=checkbox]):not(.terms-only):not(.terms-only *)');
  const target = ($('panel') && (field?.offsetParent ? field : document.querySelector('#panel .main-action:not(:disabled), #panel:has(#gone) [data-close]') || $('panel'))) || $('title') || $('main');
  if (unread()) { // the arguments come before the button
    $('args').scrollIntoView({ block: 'start' });
    $('args-title').focus({ preventScroll: true });
    return;
  }
  target?.focus({ preventScroll: Boolean(!$('panel')) });
  $('panel')?.scrollIntoView({ block: 'nearest' });
}

// Whether the arguments are longer than the screen and were not read to the end.
const unread = () => document.querySelector('#panel.do-approve [name=digest]') && !seen.has(digest()) && $('args').offsetHeight > innerHeight * 0.8;

function fail(text) {
  const box = $('flash');
  if (!box) { say(text); return; }
  box.replaceChildren(Object.assign(document.createElement('p'), { className: 'flash bad', textContent: text }));
}

// ---- live updates

let wanted, last = 0;

async function refresh() {
  if (sending) { later(); return true; }
  const still = 'still' in $('main').dataset; // what a person reviews does not change under their eyes, only the pages' counts
  const mine = visit, here = location.href;
  last = Date.now();
  try {
    const page = await ask(still ? '/inbox' : here);
    if (mine !== visit || here !== location.href || sending) { later(); return true; } // the person opened another page meanwhile
    if (isOthers(page.doc) || !still && new URL(page.url).pathname !== location.pathname) {
      if (drafts($('main'))) {
        if ($('ended').hidden) say($('ended').textContent);
        $('ended').hidden = false;
        return false;
      }
      if (isOthers(page.doc)) location.reload(); else location.href = page.url;
      return true;
    }
    if (still) around(page.doc);
    else { show(page.doc); ready(); }
    return true;
  } catch {
    return false;
  }
}

// Changes come in bursts: one request for all of them.
function later() {
  clearTimeout(wanted);
  const slow = Number($('main').dataset.every) || 400; // pages with figures ask for less
  wanted = setTimeout(refresh, Math.max(80, last + slow - Date.now()));
}

function progressed({ id, line }) {
  const log = document.querySelector(`[data-log="${CSS.escape(id)}"]`);
  const n = `${line.attempt}/${line.n}`;
  if (!log) { later(); return; }
  if (log.querySelector(`[data-n="${CSS.escape(n)}"]`)) return;
  const end = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  const p = document.createElement('p');
  p.dataset.n = n;
  p.textContent = line.text;
  log.append(p);
  if (end) log.scrollTop = log.scrollHeight;
}

let connected = true; // as the person was told

// A page that may be out of date sends nothing.
function told(live, quiet) {
  if (!quiet && live !== connected) say(live ? 'Connected again.' : 'Not connected. You cannot send a response.');
  if (!quiet) connected = live;
  document.body.classList.toggle('offline', !live);
  if (live) $('ended').hidden = true;
  guard();
}

let watcher;

function guard() {
  document.body.classList.toggle('sending', sending);
  const over = document.querySelector('[data-expires][data-over]');
  const off = sending || !stream.live || Boolean(over && $('bar'));
  for (const el of document.querySelectorAll('[data-live-only]')) {
    const unseen = el.closest('.do-approve') && !seen.has(digest());
    if (el.tagName === 'A') {
      if (off) el.setAttribute('aria-disabled', 'true'); else el.removeAttribute('aria-disabled');
    } else el.disabled = off || opening() || Boolean(unseen) || Boolean(document.querySelector('#verdict .faults'));
  }
  if ($('unseen')) $('unseen').hidden = seen.has(digest());
}

const digest = () => [...document.querySelectorAll('#panel [name=digest]')].map((i) => i.value).join(' '); // several: of a bulk response

function watchEnd() {
  watcher?.disconnect();
  const end = $('args-end');
  if (!end || !$('panel') || seen.has(digest())) return;
  watcher = new IntersectionObserver((all) => {
    if (all.some((e) => e.isIntersecting) && !document.querySelector('#args .fold:not([data-opened])')) { seen.add(digest()); guard(); watcher.disconnect(); if (document.activeElement === $('panel')) land(); }
  });
  watcher.observe(end);
}

// Puts the digest of the form's request into the address: after the request has
// changed, a reload shows that, and not a form for the new request.
function pin() {
  if (opening()) return; // the address is that of another page
  const url = new URL(location);
  if (!digest() || !url.searchParams.get('do') || url.searchParams.has('digest') || ($('panel').dataset.form ?? 'stale').endsWith('stale')) return;
  url.searchParams.set('digest', digest());
  history.replaceState(history.state, '', url);
}

const unsent = new Map(); // what a person wrote and did not send, by form and field

const nameOf = (area) => area.form?.id === 'panel' && area.form.dataset.form && `${$('main').dataset.call} ${area.form.dataset.form} ${area.id}`;

function keepText(area) {
  const name = nameOf(area);
  if (!name) return;
  if (area.value === area.defaultValue) unsent.delete(name); else unsent.set(name, area.value);
}

function restoreTexts() {
  for (const area of document.querySelectorAll('#panel textarea')) {
    const text = unsent.get(nameOf(area));
    if (text === undefined || area.value !== area.defaultValue) continue;
    area.value = text;
    if (area.dataset.check) checkLater(area);
  }
}

/** Prepares new parts of a page. */
function ready() {
  pin();
  restoreTexts();
  prepareAudit(say);
  inbox.ready();
  tick(expired);
  watchEnd();
  guard();
}

function expired(el) {
  guard();
  if (el.closest('#head, .rows')) setTimeout(later, 300);
}

// ---- forms

let checking;

function checkLater(area) {
  clearTimeout(checking);
  checking = setTimeout(() => check(area), 200);
}

// What a fold of a diff has: lines of the arguments before the edit, or the end of a long diff.
const linesOf = (fold) => (fold.dataset.lines ?? '0 0').split(' ').map(Number);

// Has the server check edited arguments.
async function check(area) {
  const text = area.value;
  try {
    const res = await fetch(area.dataset.check, { method: 'POST', body: new URLSearchParams(new FormData(area.form)), headers: { Accept: 'text/html' } });
    if (area.value !== text || !res.ok) return;
    const verdict = $('verdict'), next = piece(await res.text());
    const folds = () => [...verdict.querySelectorAll('details')];
    if (folds().length) verdict.unfolded = folds().filter((d) => d.open).map(linesOf); // stays, also behind JSON that is not complete yet
    verdict.replaceChildren(...next);
    for (const d of folds()) {
      const [from, to] = linesOf(d);
      d.open ||= Boolean(verdict.unfolded?.some(([a, b]) => a <= to && from <= b));
    }
  } catch { return; } // the stream reports a lost connection
  area.setAttribute('aria-invalid', document.querySelector('#verdict .faults') ? 'true' : 'false');
  guard();
}

async function send(form, submitter) {
  if (sending || opening() || !stream.live) return;
  const body = new URLSearchParams(new FormData(form, submitter)); // guard disables the button
  const names = [...form.querySelectorAll('textarea')].map(nameOf);
  sending = true;
  guard();
  const replied = await go(form.action, { focus: false, options: { method: 'POST', body } });
  sending = false;
  if (replied && !form.isConnected) for (const name of names) unsent.delete(name);
  ready();
  const again = !$('panel') && form.id && $(form.id); // a form that stays on the page keeps the focus
  if (!again) land();
  else if (!again.contains(document.activeElement)) again.querySelector('button')?.focus({ preventScroll: true });
  const outcome = document.querySelector('#flash .flash');
  if (outcome) say(outcome.firstChild.textContent);
  outcome?.scrollIntoView({ block: 'nearest' });
}

// Applies a filter: its fields are the address of the page.
function filterNow(form) {
  const q = new URLSearchParams(new FormData(form));
  for (const [k, v] of [...q]) if (!v || (k === 'show' && v === 'open')) q.delete(k, v);
  for (const k of ['session', 'reply', 'call']) {
    const v = new URL(location).searchParams.get(k);
    if (form.id === 'filter' && v !== null && $('panel')) q.set(k, v); // an open form stays
  }
  history.replaceState(null, '', (q.has('call') ? location.pathname : new URL(form.action).pathname) + (q.size ? '?' + q : ''));
  const mine = ++visit;
  expect(mine, refresh());
}

const isFilter = (form) => form && (form.id === 'filter' || 'filter' in form.dataset);

// ---- events of the page

document.addEventListener('click', (e) => {
  if (e.detail > 1 && e.target.closest('#panel button')) { // of a double click, whose first click opened the form
    e.preventDefault();
    return;
  }
  const a = e.target.closest('a[href]');
  if (!a || e.defaultPrevented || e.button || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey) return;
  const url = new URL(a.href);
  if (url.origin !== location.origin || 'plain' in a.dataset || a.hasAttribute('download') || a.classList.contains('skip')) return;
  e.preventDefault();
  if (a.getAttribute('aria-disabled') !== 'true') go(a.href);
});

document.addEventListener('submit', (e) => {
  const form = e.target;
  if (isFilter(form)) { e.preventDefault(); filterNow(form); return; }
  if ('plain' in form.dataset || form.method === 'dialog') return;
  if (form.method === 'get') {
    e.preventDefault();
    const url = new URL(form.action);
    url.search = new URLSearchParams(new FormData(form, e.submitter));
    go(url.href);
    return;
  }
  e.preventDefault();
  send(form, e.submitter);
});

let typing;
document.addEventListener('input', (e) => {
  if (e.target.dataset.check) checkLater(e.target);
  if (e.target.matches('textarea')) keepText(e.target);
  const form = e.target.form;
  if (isFilter(form)) { clearTimeout(typing); typing = setTimeout(() => filterNow(form), e.target.matches('select, [type=checkbox], [type=radio]') ? 0 : 250); }
});

document.addEventListener('toggle', (e) => {
  if (e.target.id && stream.live) e.target.dataset.touched = '1';
  if (e.target.classList.contains('fold')) { e.target.dataset.opened = '1'; watchEnd(); }
}, true);

window.addEventListener('popstate', () => go(location.href, { push: false }));

$('help-open').hidden = false;
$('help-open').addEventListener('click', () => $('help').showModal());

$('theme').hidden = false;
$('theme').addEventListener('click', () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = dark ? 'light' : 'dark';
  document.cookie = `askance_theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=lax`;
});

document.documentElement.classList.add('js');
remember();
find(go);
inbox.start({ go, reload: later, say });
listen();
setInterval(() => tick(expired), 1000);
setInterval(() => { if (stream.live && !document.hidden && document.querySelector('[data-refresh]')) later(); }, 5000); // what grows with time
stream.open({
  changed: (c) => { if (c.say) say(c.say); if (!inbox.changed(c)) later(); },
  progress: progressed,
  told,
  back: refresh,
  keeps: inbox.notifies,
});
ready();
if ($('panel')) land();
