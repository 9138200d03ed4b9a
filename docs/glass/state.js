// What the reader has chosen; the address holds it, so a link shows what they see.

export const fresh = { q: "58074", to: "de", map: "", t: 0, e: -1, s: -1, c: -1, lines: "", beam: 4, temp: 1, mute: "", step: -1, see: "" };

export function read(hash = location.hash) {
  const given = Object.fromEntries(new URLSearchParams(hash.slice(1)));
  const kept = Object.entries(fresh).map(([name, value]) => {
    if (!(name in given)) return [name, value];
    const number = Number(given[name]);
    return [name, typeof value === "string" ? given[name].slice(0, 300) : Number.isFinite(number) ? number : value];
  });
  return Object.fromEntries(kept);
}

let timer;

/** The address follows when the reader pauses: browsers limit how often it may change. */
export function write(state) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const changed = Object.entries(state).filter(([name, value]) => name in fresh && value !== fresh[name]);
    history.replaceState(null, "", changed.length ? `#${new URLSearchParams(changed)}` : location.pathname + location.search);
  }, 400);
}
