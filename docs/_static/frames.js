// What moves on a page: the notebooks' sliders, one picture for each value, made beforehand by make_pictures.py; folded sections; and the table of contents.

/** Put the controls and the first picture into one box. */
async function startFrames(box) {
  const { controls, frames } = JSON.parse(box.querySelector("script").textContent);
  const picture = document.createElement("img"), text = document.createElement("pre"), form = document.createElement("form");
  const [, , width, height] = frames.flatMap(({ images }) => images).reduce((a, b) => (b[2] > a[2] ? b : a), [0, 0, 0, 0]);
  if (width) [picture.width, picture.height] = [width / 2, height / 2];
  const inputs = controls.map(({ name, labels, start, list }) => {
    const label = document.createElement("label"), input = document.createElement(list ? "select" : "input"), shown = document.createElement("output");
    if (list) input.append(...labels.map((one, i) => new Option(one, i, i === start, i === start)));
    else Object.assign(input, { type: "range", min: 0, max: labels.length - 1, value: start });
    label.append(name, " ", input, " ", list ? "" : shown);
    form.append(label);
    return { input, show: () => { shown.value = labels[input.value]; if (!list) input.ariaValueText = labels[input.value]; }, size: labels.length };
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  box.append(form, picture, text);
  const bytes = await (await fetch(box.dataset.source)).arrayBuffer(), urls = new Map();
  const draw = () => {
    const which = inputs.reduce((at, { input, size }) => at * size + Number(input.value), 0), { images, text: said } = frames[which];
    for (const { show } of inputs) show();
    text.textContent = said;
    text.hidden = !said;
    picture.hidden = !images.length;
    if (!images.length) return;
    const [from, length] = images[0];
    if (!urls.has(from)) urls.set(from, URL.createObjectURL(new Blob([bytes.slice(from, from + length)], { type: "image/webp" })));
    picture.src = urls.get(from);
    picture.alt = controls.map(({ name, labels }, i) => `${name} ${labels[inputs[i].input.value]}`).join(", ");
  };
  form.addEventListener("input", draw);
  draw();
}

/** A link to a folded section opens it. */
function unfold() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  const own = target?.querySelector(":scope > details.deeper");
  if (own) own.open = true;
}

/** The table of contents shows where the reader is. */
function follow() {
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) places.get(target).classList.toggle("scroll-current", isIntersecting);
  }, { rootMargin: "-80px 0px -75%" });
  const links = [...document.querySelectorAll(".toc-tree a[href^='#']")].filter(({ hash }) => hash);
  const places = new Map(links.map((link) => [document.getElementById(decodeURIComponent(link.hash.slice(1))), link.parentElement]));
  for (const section of places.keys()) if (section) seen.observe(section);
}

addEventListener("hashchange", unfold);
addEventListener("DOMContentLoaded", () => {
  unfold();
  follow();
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      startFrames(target);
    }
  }, { rootMargin: "800px" });
  for (const box of document.querySelectorAll(".frames")) near.observe(box);
});

/** Sections far away have no height until they are near, so for a second the page follows the fragment, unless the reader moves. */
function arrive() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1))), until = performance.now() + 1000;
  let moved = !target;
  for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) addEventListener(kind, () => (moved = true), { once: true });
  const follow = () => {
    if (moved || performance.now() > until) return;
    target.scrollIntoView();
    requestAnimationFrame(follow);
  };
  follow();
}
addEventListener("load", arrive);
addEventListener("hashchange", arrive);
