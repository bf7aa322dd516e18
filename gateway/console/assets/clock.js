// Running times. The server sends instants; this computes what is shown.

const units = [[86400, 'd', 3600, 'h'], [3600, 'h', 60, 'm'], [60, 'm', 1, 's']];

function span(s) {
  s = Math.max(0, Math.round(s));
  for (const [big, b, small, l] of units) {
    const rest = Math.floor((s % big) / small);
    if (s >= big) return `${Math.floor(s / big)}${b}${rest ? ` ${rest}${l}` : ''}`;
  }
  return `${s}s`;
}

let ahead; // how far this machine's clock is ahead of the server's

/** Takes the server's time. Small differences can be the time that the message took. */
export function setNow(time) {
  const skew = Date.now() - Date.parse(time);
  ahead = Math.abs(skew) > 30000 ? skew : 0;
}
setNow(document.body.dataset.now);

/** Updates all times; calls turned for each deadline that passes, or proves not to be over. */
export function tick(turned) {
  const now = Date.now() - ahead;
  for (const el of document.querySelectorAll('[data-since]')) put(el, span((now - Date.parse(el.dataset.since)) / 1000) + (el.hasAttribute('data-bare') ? '' : ' ago'));
  for (const el of document.querySelectorAll('[data-until]')) {
    const left = (Date.parse(el.dataset.until) - now) / 1000, over = left <= 0;
    put(el, over ? 'over' : span(left) + (el.hasAttribute('data-bare') ? '' : ' left'));
    const mark = el.closest('.ends, .clock');
    for (const [name, is] of [['calm', left > 3600], ['soon', left > 600 && left <= 3600], ['urgent', left <= 600]]) mark?.classList.toggle(name, is);
    if (over === 'over' in el.dataset) continue;
    el.toggleAttribute('data-over', over);
    el.closest('.clock')?.classList.toggle('over', over);
    turned(el);
  }
}

const put = (el, text) => { if (el.textContent !== text) el.textContent = text; };
