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

// How far this machine's clock is ahead of the server's. Small differences can be the time of the load.
const skew = Date.now() - Date.parse(document.body.dataset.now);
const ahead = Math.abs(skew) > 30000 ? skew : 0;

/** Updates all times; calls over once for each deadline that passes. */
export function tick(over) {
  const now = Date.now() - ahead;
  for (const el of document.querySelectorAll('[data-since]')) put(el, span((now - Date.parse(el.dataset.since)) / 1000) + (el.hasAttribute('data-bare') ? '' : ' ago'));
  for (const el of document.querySelectorAll('[data-until]')) {
    const left = (Date.parse(el.dataset.until) - now) / 1000;
    put(el, left <= 0 ? 'over' : span(left) + (el.hasAttribute('data-bare') ? '' : ' left'));
    const mark = el.closest('.ends, .clock');
    if (mark && left <= 3600) { mark.classList.remove('calm'); mark.classList.toggle('soon', left > 600); mark.classList.toggle('urgent', left <= 600); }
    if (left <= 0 && !el.dataset.over) {
      el.dataset.over = '1';
      el.closest('.clock')?.classList.add('over');
      over(el);
    }
  }
}

const put = (el, text) => { if (el.textContent !== text) el.textContent = text; };
