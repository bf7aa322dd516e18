// The stream that reports changes. It carries no state: after a reconnect the whole
// page is read again.

const silence = 25000; // the server ticks every ten seconds
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
  told(live);
}

/** Opens the stream again at once. */
export let reopen;

/**
 * Opens the stream and reopens it. Calls changed with each change, progress with
 * each line, told with whether it is connected, and back after it connects: then
 * the page must be read again.
 */
export function open({ changed, progress, told, back }) {
  const again = () => {
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
  window.addEventListener('offline', again);
  reopen = () => { pause = 0; again(); pause = 500; };
  window.addEventListener('online', reopen);
  window.addEventListener('pagehide', () => source?.close());
  window.addEventListener('pageshow', (e) => { if (e.persisted) reopen(); });
  connect();
}
