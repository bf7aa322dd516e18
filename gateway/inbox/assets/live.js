// The stream that says that something has changed. It carries no state: after
// it was down the page is read again as a whole.

const silence = 25000; // the server ticks every ten seconds
let source, watchdog, retry, pause = 500;

const word = { on: 'live', down: 'not connected', off: 'not live' };

/** Whether the page can be believed to be up to date. */
export let live = false;

function turn(state, told) {
  const el = document.getElementById('live');
  el.dataset.live = state;
  el.querySelector('.live-word').textContent = word[state];
  live = state === 'on';
  document.getElementById('stale').hidden = state !== 'down';
  told(live);
}

/**
 * Opens the stream, again and again. changed is called with each change,
 * progress with each line, told with whether the stream is there; back when it
 * has come (back): everything must be read again then.
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
    source.addEventListener('ready', () => { pause = 500; heard(); back().then((ok) => { if (ok) turn('on', told); else again(); }); });
    source.addEventListener('tick', heard);
    source.addEventListener('changed', (e) => { heard(); changed(JSON.parse(e.data)); });
    source.addEventListener('progress', (e) => { heard(); progress(JSON.parse(e.data)); });
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) back(); // refused: the page itself says why, or leads to the log-in
      again();
    };
    heard();
  };
  window.addEventListener('offline', again);
  window.addEventListener('online', () => { pause = 0; again(); pause = 500; });
  window.addEventListener('pagehide', () => source?.close());
  window.addEventListener('pageshow', (e) => { if (e.persisted) { pause = 0; again(); } });
  connect();
}
