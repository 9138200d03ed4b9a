// The page: loads the model, keeps what the reader has chosen, translates anew when it changes.
import { html, render, useEffect, useLayoutEffect, useState } from "./vendor/preact.js";
import { Model, kinds } from "./model.js";
import { value } from "./numbers.js";
import { fresh, read, write } from "./state.js";
import { Ask, Beam, Bridge, Heads, Lens, Replay, stay, Tasks, Whole } from "./view.js";

const embedded = new URLSearchParams(location.search).has("embed");

/** The cross-attention head that looks most clearly, each time at another word: the one to begin with. */
function clearest(look, { layers, heads }) {
  const words = look.source.indexOf("<<") + 1, end = look.source.length - 1;  // neither the tag nor the end is an answer
  let best = ["", -1];
  for (let layer = 0; layer < layers; layer++) {
    for (let head = 0; head < heads; head++) {
      const rows = look.head("cross", layer, head).weights.slice(0, -1).map((row) => row.subarray(words, end));
      const seen = rows.map((row) => Math.max(...row)), places = new Set(rows.map((row, i) => row.indexOf(seen[i])));
      const clear = seen.reduce((a, b) => a + b, 0) * places.size;
      if (clear > best[1]) best = [`cross-${layer}-${head}`, clear];
    }
  }
  return best[0];
}

function App({ model, onReady }) {
  const [state, setState] = useState(read);
  const [look, setLook] = useState(null);
  const [error, setError] = useState("");
  const change = (part) => setState((old) => ({ ...old, ...part }));
  useEffect(() => write(state), [state]);
  useEffect(() => {
    const follow = () => setState(read());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  useEffect(() => {
    try {
      const gates = model.allHeads(model.about);
      for (const name of state.mute.split(",").filter(Boolean)) {
        const [kind, layer, head] = name.split("-");
        gates[kinds.indexOf(kind)][layer][head] = 0;
      }
      const src = model.source(state.q, state.to);
      if (src.length > 60) throw new Error("That is too long for a model that has only seen numbers.");
      const whole = model.look(src, model.greedy(src)), found = state.mute ? model.look(src, model.greedy(src, gates), gates) : whole;
      const p = model.probabilities(src, found.ids, gates);
      setLook({ ...found, src, gates, p, number: value(state.q), wholeText: model.tokenizer.decode(whole.ids), map: clearest(whole, model.about) });
      setError("");
    } catch (problem) {
      setError(problem.message);
    }
  }, [state.q, state.to, state.mute]);
  useEffect(() => { if (look) onReady(); }, [look]);
  useLayoutEffect(() => {
    stay();
    if (embedded && frameElement && look) {  // the frame is as high as what is in it
      frameElement.style.minHeight = `${Math.ceil(document.querySelector("main").getBoundingClientRect().bottom) + 20}px`;
    }
  }, [look, state]);
  const [drawn, setDrawn] = useState(false);  // all of it, so that nothing moves any more
  useEffect(() => document.getElementById(state.see)?.scrollIntoView(), [drawn, state.see]);
  const shared = { model, state, change, look, error };
  return html`
    <main>
      <${Ask} ...${shared} ...${{ setError, embedded }} />
      ${look && html`<${Bridge} ...${shared} />`}
      ${embedded && html`<p><a href="index.html" target="_top">Look inside: every head, every sum, every hypothesis</a></p>`}
      ${look && !embedded && html`
        <${Heads} ...${shared} />
        <${Lens} ...${shared} />
        <${Beam} ...${shared} onDrawn=${() => setDrawn(true)} />
        <${Replay} ...${shared} />
        <${Tasks} />
        <${Whole} ...${shared} />`}
    </main>
    <footer hidden=${embedded}>
      This is a translator like that of <a href="../13_translation.html">chapter 13</a>, ${model.about.parameters.toLocaleString("en")} parameters,
      trained for ${model.about.losses.at(-1)[0]} updates on the words of numbers. It runs here, in your browser; nothing you type leaves it.
      How it is built: <a href="../index.html">the course</a>.
    </footer>`;
}

const app = document.getElementById("app"), status = document.querySelector("[role=status]"), bar = document.querySelector("progress");
if (location.hash.length > 1) app.replaceChildren();  // what stands there belongs to the first sentence
document.documentElement.classList.toggle("embed", embedded);
if (embedded) {  // a guest on another page loads nothing before somebody takes an interest
  await new Promise((wanted) => ["pointerover", "pointerdown", "focusin"].forEach((kind) => addEventListener(kind, wanted, { once: true })));
}
bar.hidden = false;
try {
  const model = await Model.load((share) => { bar.value = share; });
  window.glass = model;  // for the tests, and for the curious
  const q = document.getElementById("q")?.value.trim() || fresh.q, to = app.querySelectorAll("[name=to]")[1]?.checked ? "ko" : fresh.to;
  if (!location.hash && (q !== fresh.q || to !== fresh.to)) history.replaceState(null, "", `#${new URLSearchParams({ q, to })}`);
  const alive = document.createElement("div");  // takes the place of the first picture when it has one of its own
  const show = () => {
    const held = document.activeElement?.id;
    app.replaceChildren(alive);
    if (held) document.getElementById(held)?.focus();
    if (!location.hash) app.querySelectorAll("button")[window.early]?.click();
  };
  render(html`<${App} model=${model} onReady=${() => alive.isConnected || show()} />`, alive);
  status.textContent = "";
} catch (problem) {
  status.textContent = `The translator could not be loaded (${problem.message}). Check the connection and load the page again.`;
  throw problem;
} finally {
  bar.hidden = true;
}
