// Puts the drawing itself where its image stands, so that it follows the page's theme. Each picture brings this along.
(() => {
  const style = document.getElementById('torchkata-style') || document.createElement('style');
  style.id = 'torchkata-style';
  style.textContent = STYLE;
  document.head.append(style);
  const here = document.currentScript && document.currentScript.closest('.torchkata-picture');
  for (const place of here ? [here] : document.querySelectorAll('.torchkata-picture')) {
    const image = place.querySelector('img[src*="base64,"]');
    if (!image) continue;
    const live = document.createElement('div');
    const stage = document.createElement('div');
    live.className = 'tk-live';
    stage.className = 'tk-stage';
    live.append(stage);
    const letters = atob(image.src.split('base64,')[1]);
    stage.innerHTML = new TextDecoder().decode(Uint8Array.from(letters, (letter) => letter.charCodeAt(0)));
    stage.firstElementChild.setAttribute('role', 'img');
    stage.firstElementChild.setAttribute('aria-label', image.alt);
    image.replaceWith(live);
    for (const still of place.querySelectorAll('.tk-still')) still.remove();
    new ResizeObserver(() => {
      const wide = stage.scrollWidth > stage.clientWidth; // then the keyboard must reach it
      if (wide) stage.tabIndex = 0; else stage.removeAttribute('tabindex');
    }).observe(stage);
  }
})();
