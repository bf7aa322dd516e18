// The stream that reports changes. It carries no state: after a reconnect the whole
// page is read again.

import { setNow } from './clock.js';

const silence = 25000; // the server ticks every ten seconds
const rests = 5000; // after which a tab that is not visible gives up its stream
const looks = 15000; // how often it then reads the page
let source, watchdog, retry, pause = 500;

const word = { on: 'live', down: 'not connected', off: 'not live' };

/** Whether the page is up to date. */
export let live = false;

function turn(state, told) {
  const el = document.getElementById('live');
  el.dataset.live = document.body.dataset.live = state;
  el.querySelector('.live-word').textContent = word[state];
  live = state === 'on';
  document.getElementById('stale').hidden = state !== 'down';
  told(live, state === 'off');
}

/** Opens the stream again at once. */
export let reopen;

/**
 * Opens the stream and reopens it. Calls changed with each change, progress with
 * each line, told with whether it is connected and whether that is no news, and back
 * after it connects: then the page must be read again.
 *
 * Browsers open only six connections to a server without TLS, for all their tabs. So a tab
 * that is not visible gives up its stream. If keeps() is true, the oldest tab keeps it.
 */
export function open({ changed, progress, told, back, keeps }) {
  let looking, resting; // without a stream; about to give it up
  let oldest; // the other tabs wait for its lock
  navigator.locks?.request('askance-stream', () => { oldest = true; return new Promise(() => {}); });
  const again = () => {
    if (looking) return;
    source?.close();
    clearTimeout(watchdog);
    clearTimeout(retry);
    turn('down', told);
    retry = setTimeout(connect, pause);
    pause = Math.min(pause * 2, 10000);
  };
  const heard = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(again, silence);
  };
  const connect = () => {
    source?.close();
    source = new EventSource('/inbox/events');
    source.addEventListener('tick', (e) => setNow(e.data));
    source.addEventListener('ready', () => {
      pause = 500;
      heard();
      source.addEventListener('tick', heard); // a tick before does not mean that changes arrive
      back().then((ok) => { if (ok) turn('on', told); else again(); });
    });
    source.addEventListener('changed', (e) => { heard(); changed(JSON.parse(e.data)); });
    source.addEventListener('progress', (e) => { heard(); progress(JSON.parse(e.data)); });
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) back(); // refused: the page shows why, or redirects to the log-in
      again();
    };
    heard();
  };
  const rest = () => {
    if (oldest && keeps()) { source ?? connect(); return; }
    source?.close();
    source = undefined;
    clearTimeout(watchdog);
    clearTimeout(retry);
    looking = setInterval(() => { if (oldest && keeps()) wake(); else back(); }, looks);
  };
  const wake = () => {
    clearInterval(looking);
    looking = undefined;
    turn('off', told);
    connect();
  };
  document.addEventListener('visibilitychange', () => {
    clearTimeout(resting);
    if (document.hidden) resting = setTimeout(rest, rests);
    else if (looking) wake();
  });
  window.addEventListener('offline', again);
  reopen = () => { pause = 0; again(); pause = 500; };
  window.addEventListener('online', reopen);
  window.addEventListener('pagehide', () => source?.close());
  window.addEventListener('pageshow', (e) => { if (e.persisted) reopen(); });
  if (document.hidden) rest(); else connect();
}
