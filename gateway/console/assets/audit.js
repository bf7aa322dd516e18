// The page Audit: a receipt from a file is put into the form, as if it were pasted.

const most = 1 << 20;

/** Prepares the page, if it is the open one. */
export function prepare(say) {
  const open = document.getElementById('receipt-open'), file = document.getElementById('receipt-file');
  if (!open?.hidden) return;
  open.hidden = false;
  file.addEventListener('change', async () => {
    const [chosen] = file.files;
    if (!chosen) return;
    if (chosen.size > most) { say('The file is too large for this page. Use askance audit check.'); return; }
    document.getElementById('receipt').value = await chosen.text();
    file.form.requestSubmit();
  });
}
