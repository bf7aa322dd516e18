// The palette: goes to a page, or to a call that the server finds.

import { ask } from './page.js';

const $ = (id) => document.getElementById(id);
let typing, turn = 0;

const links = () => [...$('found').querySelectorAll('a')];

function select(link) {
  for (const a of links()) a.classList.toggle('at', a === link);
  link?.scrollIntoView({ block: 'nearest' });
}

// The pages whose names have the words, as the rail has them.
function pages(words) {
  const all = [...document.querySelectorAll('#rail-pages a')].filter((a) => a.textContent.toLowerCase().includes(words));
  return all.map((a) => {
    const copy = a.cloneNode(true);
    copy.removeAttribute('id');
    copy.removeAttribute('aria-current');
    return copy;
  });
}

function group(title, items) {
  return items.length ? [Object.assign(document.createElement('h2'), { textContent: title }), ...items] : [];
}

async function search() {
  const words = $('find-words').value.trim(), mine = ++turn;
  const first = group('Pages', pages(words.toLowerCase()));
  $('found').replaceChildren(...first);
  select(links()[0]);
  if (!words) return;
  try {
    const page = await ask('/find?q=' + encodeURIComponent(words));
    if (mine !== turn) return;
    const calls = [...page.doc.querySelectorAll('#calls a')];
    $('found').replaceChildren(...first, ...group('Calls', calls));
    if (!first.length && !calls.length) $('found').append(Object.assign(document.createElement('p'), { className: 'none', textContent: 'No page or call matches.' }));
    if (!document.querySelector('#found .at')) select(links()[0]);
  } catch { /* the pages stay */ }
}

/** Prepares the palette; go opens a page. */
export function find(go) {
  const open = () => {
    if ($('rail').matches(':popover-open')) $('rail').hidePopover();
    $('find-words').value = '';
    $('find').showModal();
    search();
  };
  $('find-open').hidden = false;
  $('find-open').addEventListener('click', open);
  $('find-words').addEventListener('input', () => { clearTimeout(typing); typing = setTimeout(search, 120); });
  $('find').addEventListener('keydown', (e) => {
    const all = links(), at = all.findIndex((a) => a.classList.contains('at'));
    if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
      e.preventDefault();
      select(all[(at + (e.key === 'ArrowDown' ? 1 : all.length - 1)) % all.length]);
    } else if (e.key === 'Enter' && all[at]) {
      e.preventDefault();
      $('find').close();
      go(all[at].href);
    }
  });
  $('found').addEventListener('click', () => $('find').close());
  $('find').addEventListener('click', (e) => { if (e.target === $('find')) $('find').close(); });
}
