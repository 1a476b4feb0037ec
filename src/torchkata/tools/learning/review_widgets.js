// Runs once in the review page: tells the browser what ipywidgets leaves out. `element` is the place of this script.
(function dress(tries) {
  const page = element.closest('.torchkata-review');
  if (!page) {
    if (tries) setTimeout(dress, 50, tries - 1); // the script runs before its place is in the page
    return;
  }
  page.setAttribute('role', 'group');
  page.setAttribute('aria-label', 'review');
  const words = page.querySelector('.torchkata-words .widget-html-content');
  if (words) words.setAttribute('role', 'status'); // read out when they change

  // plain keys stay with the control; else JupyterLab takes them: in a list, an arrow would go to the next cell
  if (window.torchkataReviewKeys) return;
  window.torchkataReviewKeys = (event) => {
    const control = event.target;
    if (!control.closest || !control.closest('.torchkata-review')) return;
    const forJupyter = event.ctrlKey || event.metaKey || event.altKey || event.key === 'Escape' ||
      (event.key === 'Enter' && event.shiftKey);
    control.toggleAttribute('data-lm-suppress-shortcuts', !forJupyter); // JupyterLab looks for it at the control
  };
  window.addEventListener('keydown', window.torchkataReviewKeys, true); // before JupyterLab, which listens at the document
})(100);
