// What is seen: each part of the page is a function of the model, of what was computed, and of what was chosen.
import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { kinds, logSoftmax, top } from "./model.js";
import { sentence, spoken } from "./numbers.js";

const titles = { encoder: "The English reads itself", decoder: "The writing reads itself", cross: "The writing reads the English" };
const terms = { encoder: ["self-attention", "05_encoder"], decoder: ["masked self-attention", "06_decoder"], cross: ["cross-attention", "06_decoder"] };
const Term = ({ name, page }) => html`<a class="term" href="../${page}.html">${name} <span aria-hidden="true">→</span> chapter ${page.slice(0, 2)}</a>`;
const shown = (piece) => piece.replace(/^ /, "␣").replace("<eos>", "end").replace("<bos>", "begin");
const percent = (p) => (p >= 0.995 ? "100" : p >= 0.0995 ? (100 * p).toFixed(0) : (100 * p).toFixed(1));
const cut = (text) => (text.length > 12 ? `${text.slice(0, 11)}…` : text);
const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

let held = null;

/** What was pressed stays where it is on the screen, whatever grows above it: called before a change, and after it. */
export function stay(pressed) {
  if (pressed) held = { pressed, top: pressed.getBoundingClientRect().top };
  else if (held?.pressed.isConnected) scrollBy({ top: held.pressed.getBoundingClientRect().top - held.top, behavior: "instant" });
}
for (const kind of ["pointerdown", "keydown", "wheel"]) addEventListener(kind, () => { held = null; }, { capture: true, passive: true });  // it is over with the next move

/** "cross-1-0" → its parts, with the maps and labels that belong to it. */
function chosen(look, name) {
  const [kind, layer, head] = (name || look.map).split("-"), found = look.head(kind, Number(layer), Number(head));
  const rows = kind === "encoder" ? look.source : look.written, columns = kind === "decoder" ? look.read : look.source;
  return { kind, layer: Number(layer), head: Number(head), rows, columns, ...found };
}

export function Ask({ state, change, error, setError, embedded }) {
  const [text, setText] = useState(state.q);
  useEffect(() => setText(state.q), [state.q]);
  const go = (q, to = state.to) => {
    setError(q.trim() ? "" : "Type a number first.");
    if (q.trim()) change({ q, to, t: 0, e: -1, s: -1, c: -1 });
  };
  const examples = ["58074", "777", "21", "forty thousand and two", "234567"];
  return html`
    <header>
      ${!embedded && html`<p class="home"><a href="../index.html">Transformer, from nothing</a>: the course that builds this model, beginning with <a href="../00_foundations.html">chapter 00</a></p>`}
      <h1>The glass translator</h1>
      <p class="lead">A small Transformer translates numbers into German or Korean, and shows everything it computes. Type a number, in digits or in English words.</p>
      <form class="ask" onSubmit=${(event) => { event.preventDefault(); go(text); }}>
        <label class="hidden" for="q">A number</label>
        <input id="q" value=${text} onInput=${(event) => setText(event.target.value)} autocomplete="off" maxlength="120" aria-invalid=${Boolean(error)} aria-describedby="problem" />
        <fieldset><legend class="hidden">Into</legend>
          ${[["de", "German"], ["ko", "Korean"]].map(([to, name]) => html`
            <label><input type="radio" name="to" checked=${state.to === to} onChange=${() => go(text, to)} /><span>${name}</span></label>`)}
        </fieldset>
        <button>Translate</button>
      </form>
      <p class="examples">Try ${examples.map((q) => html`<button type="button" onClick=${() => go(q)}>${q}</button> `)}</p>
      ${error && html`<p role="alert" id="problem">${error}</p>`}
    </header>`;
}

/** What happens if each word of the source is covered in turn, found one after the other while the page stays alive. */
function useCovers(model, look) {
  const [covers, setCovers] = useState([]);
  useEffect(() => {
    let current = true;
    setCovers([]);
    (async () => {
      const found = [];
      for (let place = 0; place < look.source.length - 1; place++) {
        await new Promise((rest) => setTimeout(rest));
        if (!current) return;
        found.push(model.cover(look.src, look.ids, place, look.gates));
      }
      setCovers(found);
    })();
    return () => { current = false; };
  }, [look]);
  return covers;
}

/** A text that may be broken between its pieces. */
function broken(text, pieces) {
  const parts = pieces.filter((piece) => piece !== "<eos>");
  return parts.join("") === text ? parts.map((piece, i) => html`${i > 0 && html`<wbr />`}${piece}`) : text;
}

/** The English on the left, the translation on the right, and between them what each piece needs, or where one head looks. */
export function Bridge({ model, state, change, look, error }) {
  const [done, setDone] = useState(look.written.length), [pointed, setPointed] = useState(-1);
  const covers = useCovers(model, look), before = useRef(false);
  useEffect(() => {
    if (!before.current) return void (before.current = true);  // the first picture stood there already
    if (calm() || state.mute) return setDone(look.written.length);
    setDone(0);
    const timer = setInterval(() => setDone((n) => (n < look.written.length ? n + 1 : (clearInterval(timer), n))), 130);
    return () => clearInterval(timer);
  }, [look]);
  const name = (state.map || look.map).startsWith("cross") ? state.map || look.map : look.map;
  const { weights, layer, head } = chosen(look, name), byHead = state.lines === "head";
  const needed = look.written.map((_, t) => look.source.map((_, i) => Math.max(0, look.p[t] - (covers[i]?.probabilities[t] ?? look.p[t]))));
  const lines = byHead ? weights : needed;
  const row = 38, height = row * Math.max(look.source.length, look.written.length);
  const y = (i, n) => row * (i + 0.5 + Math.min(3, (height / row - n) / 2));
  const t = Math.min(state.t, look.written.length - 1), place = pointed >= 0 ? pointed : Math.min(state.c, look.source.length - 2);
  const text = model.tokenizer.decode(look.ids), right = look.number === null ? "" : spoken(look.number, state.to);
  const off = byHead && state.mute.split(",").includes(name), covered = covers[place];
  const strong = (i, j) => (place >= 0 && !byHead ? i === place : j === t);
  const step = (event) => {
    if (event.key === "Escape") change({ c: -1 });
    const by = { ArrowDown: 1, ArrowUp: -1, Home: -99, End: 99 }[event.key];
    if (!by) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(look.source.length - 2, Math.max(place, 0) + by));
    setPointed(-1);
    change({ c: next });
    event.currentTarget.querySelectorAll("button")[next].focus();
  };
  return html`
    <section aria-labelledby="writes" class=${error ? "old" : ""}>
      <h2 id="writes" class="hidden">The translation</h2>
      <p class="result" lang=${state.to} aria-live="polite">${text ? broken(text, look.written) : "(nothing)"}</p>
      <p class="verdict" aria-live="polite">${!right
        ? /^[\d,.\s_]*\d{7}$|^\d{1,3}([,.\s_]\d{3}){2,}$/.test(state.q.trim())
          ? "The model has never seen a number this large, and this page checks only numbers below a million."
          : "The model learned whole numbers from 0 on, spelled like “one hundred”. This is something else, so it has to make something up."
        : text === right ? html`<b class="right">✓ right</b>` : html`<b class="wrong">✗</b> The right answer is <b lang=${state.to}>${right}</b>.`}
        ${right && look.number >= 100_000 ? " The model has never seen a number this large." : ""}</p>
      <p class="covered" aria-live="polite">${covered
        ? html`Without <b>${shown(look.source[place])}</b> it writes <b lang=${state.to} class=${covered.text === text ? "" : "other"}>${covered.text ? broken(covered.text, covered.pieces) : "nothing"}</b>${covered.text === text ? ", the same." : "."}`
        : html`<b>Cover a word:</b> point at an English piece, tap it, or choose it with the arrow keys.`}</p>
      <p class="caption">${byHead
        ? html`The lines are the weights of one head of <${Term} name="cross-attention" page="06_decoder" />: layer ${layer + 1}, head ${head + 1}${off ? ", which is silent now" : ""}. They show where it looks.`
        : html`A line joins a piece that was written to each English piece it needs. It is thick if the piece becomes much less likely when that English piece is covered.`}
        ${" "}The model writes from top to bottom, one piece at a time. ␣ is a space, and <b>${">>"} ${state.to} ${"<<"}</b> asks for ${state.to === "de" ? "German" : "Korean"}.</p>
      <fieldset class="lines"><legend>The lines show</legend>
        ${[["", "what each piece needs"], ["head", `where head ${layer + 1}.${head + 1} looks`]].map(([lines, what]) => html`
          <label><input type="radio" name="lines" checked=${state.lines === lines} onChange=${() => change({ lines })} />${what}</label>`)}
      </fieldset>
      <div class=${`bridge ${off ? "off" : ""}`} style=${`height:${height}px`}>
        <ol class="from" aria-label="English pieces; choose one to cover it" onKeyDown=${step}>${look.source.map((piece, i) => html`
          <li style=${`top:${y(i, look.source.length) - row / 2}px`}>${i + 1 < look.source.length
            ? html`<button class=${i === place ? "hides" : ""} style=${`--w:${lines[t]?.[i] ?? 0}`} tabindex=${i === Math.max(place, 0) ? 0 : -1} aria-pressed=${i === state.c}
                onPointerEnter=${(event) => event.pointerType === "mouse" && setPointed(i)} onPointerLeave=${() => setPointed(-1)}
                onClick=${() => change({ c: state.c === i ? -1 : i })}>${shown(piece)}</button>`
            : html`<span style=${`--w:${lines[t]?.[i] ?? 0}`}>${shown(piece)}</span>`}</li>`)}</ol>
        <svg viewBox="0 0 100 ${height}" preserveAspectRatio="none" aria-hidden="true">
          ${lines.slice(0, done).flatMap((line, j) => Array.from(line, (w, i) => w > 0.02 && html`
            <path class=${`ink-${j % 4} ${strong(i, j) ? "strong" : ""}`} stroke-width=${Math.max(0.6, 12 * w)}
              d="M0 ${y(i, look.source.length)} C50 ${y(i, look.source.length)} 50 ${y(j, look.written.length)} 100 ${y(j, look.written.length)}" />`))}
        </svg>
        <ol class="to" aria-label="Pieces written">${look.written.map((piece, j) => html`
          <li class=${j < done ? "" : "unwritten"} style=${`top:${y(j, look.written.length) - row / 2}px`}>
            <button class=${`ink-${j % 4}`} aria-pressed=${j === t} onClick=${() => change({ t: j, c: -1 })} lang=${state.to}>${shown(piece)}</button></li>`)}</ol>
      </div>
    </section>`;
}

/** A map without words. */
const Small = ({ weights }) => html`
  <svg viewBox="0 0 ${weights[0].length} ${weights.length}" preserveAspectRatio="none" aria-hidden="true">
    ${weights.flatMap((line, j) => Array.from(line, (w, i) => w > 0.03 && html`<rect x=${i} y=${j} width="1" height="1" opacity=${w} />`))}
  </svg>`;

/** All heads, each a small map; one of them large; the sum behind a cell of it. */
export function Heads({ model, state, change, look }) {
  const { layers, heads } = model.about;
  const name = state.map || look.map, muted = state.mute.split(",").filter(Boolean);
  const mute = (which, pressed) => stay(pressed) || change({ mute: (muted.includes(which) ? muted.filter((x) => x !== which) : [...muted, which]).join(",") });
  const group = (kind) => Array.from({ length: layers * heads }, (_, i) => `${kind}-${Math.floor(i / heads)}-${i % heads}`);
  const muteAll = (kind, pressed) => stay(pressed) || change({ mute: (group(kind).every((x) => muted.includes(x)) ? muted.filter((x) => !x.startsWith(kind)) : [...new Set([...muted, ...group(kind)])]).join(",") });
  return html`
    <section aria-labelledby="heads">
      <h2 id="heads">Where every head looks</h2>
      <p class="caption">The model has three kinds of attention, each with several heads; 2.3 is the third head of layer 2. The query always comes from the piece that reads. In
        cross-attention that is the piece before the one being written, while keys and values come from the English. In the other two kinds, all three come from the same side.</p>
      <p class="caption">Choose a map to see it large, with a column for each piece that is read and a row for each piece that reads. While the translation is written, a row carries the name of the piece that comes out of it. Clear a tick to silence a head. Usually nothing breaks, because
        other heads carry the same information; then silence a whole group.</p>
      <div class="kinds">${kinds.map((kind) => html`
        <div><h3>${titles[kind]} <${Term} name=${terms[kind][0]} page=${terms[kind][1]} /> <button class="all" onClick=${(event) => muteAll(kind, event.currentTarget)}
            aria-label="${group(kind).every((x) => muted.includes(x)) ? "let them speak" : `silence all ${layers * heads}`}: ${titles[kind]}">${group(kind).every((x) => muted.includes(x)) ? "let them speak" : `silence all ${layers * heads}`}</button></h3>
          ${Array.from({ length: layers }, (_, layer) => html`
            <div class="layer" role="group" aria-label="layer ${layer + 1}">${Array.from({ length: heads }, (_, head) => {
              const which = `${kind}-${layer}-${head}`, off = muted.includes(which);
              return html`
                <div class=${`head ${off ? "off" : ""}`}>
                  <button class="map" aria-pressed=${which === name} aria-label="${titles[kind]}: layer ${layer + 1}, head ${head + 1}"
                    onClick=${() => change({ map: which, s: -1, ...(kind === "cross" ? { lines: "head" } : {}) })}><${Small} weights=${chosen(look, which).weights} /></button>
                  <label><input type="checkbox" checked=${!off} onChange=${(event) => mute(which, event.currentTarget)}
                    aria-label="${titles[kind]}: layer ${layer + 1}, head ${head + 1} speaks" />${layer + 1}.${head + 1}</label>
                </div>`;
            })}</div>`)}
        </div>`)}
      </div>
      <h3>${titles[chosen(look, name).kind]}: layer ${chosen(look, name).layer + 1}, head ${chosen(look, name).head + 1}${muted.includes(name) ? " (silent)" : ""}</h3>
      <div class="near"><${Large} ...${{ state, change, look, name }} /><${Sum} ...${{ state, look, name }} /></div>
    </section>`;
}

function place(state, look, map) {
  const word = map.kind === "encoder" ? (state.e < 0 ? look.source.indexOf("<<") + 1 : state.e) : state.t;
  const t = Math.max(0, Math.min(word, map.rows.length - 1));
  const line = map.weights[t];
  return { t, s: state.s >= 0 && state.s < line.length ? state.s : line.indexOf(Math.max(...line)) };
}

function Large({ state, change, look, name }) {
  const map = chosen(look, name), { t, s } = place(state, look, map), table = useRef(null), row = map.kind === "encoder" ? "e" : "t";
  useEffect(() => {
    const box = table.current.parentElement, cell = table.current.querySelector(`[data-cell="${t},${s}"]`);
    if (cell) box.scrollLeft = cell.offsetLeft - box.clientWidth / 2;  // not scrollIntoView: the page itself stays
  }, [look, name, t, s]);
  const move = (event) => {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -s], End: [0, map.columns.length - 1 - s] };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const next = [t + step[0], s + step[1]];
    if (map.rows[next[0]] === undefined || map.columns[next[1]] === undefined) return;
    change({ [row]: next[0], s: next[1] });
    event.currentTarget.querySelector(`[data-cell="${next}"]`)?.focus();
  };
  return html`
    <div class="scroll"><table ref=${table} class="large" role="grid" aria-label="Attention weights, per cent" onKeyDown=${move}>
      <thead><tr><th></th>${map.columns.map((piece) => html`<th scope="col"><span>${shown(piece)}</span></th>`)}</tr></thead>
      <tbody>${map.rows.map((piece, j) => html`<tr class=${j === t ? "here" : ""}><th scope="row">${shown(piece)}</th>
        ${Array.from(map.weights[j], (w, i) => html`
          <td role="gridcell" tabindex=${j === t && i === s ? 0 : -1} data-cell="${j},${i}" aria-selected=${j === t && i === s}
            aria-label="${shown(piece)} looks at ${shown(map.columns[i])}: ${percent(w)} per cent"
            style=${`--w:${w}`} class=${map.kind === "decoder" && i > j ? "later" : ""} onClick=${() => change({ [row]: j, s: i })}>${w >= 0.005 ? percent(w) : ""}</td>`)}</tr>`)}
      </tbody></table></div>`;
}

/** query · key → score → weight → value, in numbers. */
function Sum({ state, look, name }) {
  const map = chosen(look, name), { t, s } = place(state, look, map);
  const query = map.queries[t], key = map.keys[s], value = map.values[s];
  const products = Array.from(query, (q, i) => q * key[i]), dot = products.reduce((a, b) => a + b, 0);
  const scores = map.keys.map((other) => Array.from(query, (q, i) => q * other[i]).reduce((a, b) => a + b, 0) / Math.sqrt(query.length));
  const hidden = map.kind === "decoder" && s > t, largest = Math.max(...products.map(Math.abs));
  const norm = (v) => Math.hypot(...v), silent = state.mute.split(",").includes(name);
  return html`
    <div class="sum">
      <h3>The sum behind the cell</h3>
      <p>${map.kind === "encoder" ? html`The query comes from <b>${shown(map.rows[t])}</b>` : html`The piece that reads is <b>${shown(look.read[t])}</b>, and it is about to write <b>${shown(map.rows[t])}</b>. The query comes from it`}, the key
        from <b>${shown(map.columns[s])}</b>${map.kind === "cross" ? ", as the encoder has left it" : ""}. Their products in ${query.length} coordinates, blue if positive and red if negative:</p>
      <svg class="bars" viewBox="0 -1.05 ${products.length} 2.1" preserveAspectRatio="none" role="img" aria-label="products of query and key">
        ${products.map((x, i) => html`<rect x=${i + 0.1} width="0.8" y=${x > 0 ? -x / largest : 0} height=${Math.abs(x) / largest} class=${x > 0 ? "plus" : "minus"} />`)}
      </svg>
      <table class="steps"><tbody>
        <tr><th>sum, q · k</th><td>${dot.toFixed(2)}</td></tr>
        <tr><th>score, over √${query.length}</th><td>${scores[s].toFixed(2)}</td></tr>
        ${hidden
          ? html`<tr><th>weight</th><td>0: later pieces are hidden</td></tr>`
          : html`<tr><th>weight, the share of e<sup>${scores[s].toFixed(2)}</sup> in the row</th><td>${percent(map.weights[t][s])} %</td></tr>`}
        <tr><th>its value, ${norm(value).toFixed(2)} long, times the weight</th><td>${silent ? "0: silent" : (norm(value) * map.weights[t][s]).toFixed(2)}</td></tr>
      </tbody></table>
      <p>The head returns the sum of all the values in the row, each times its weight.</p>
    </div>`;
}

/** What silencing has done, in sight wherever one is. */
export function Whole({ model, state, change, look }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => setCopied(false), [state.mute]);
  if (!state.mute) return null;
  const text = model.tokenizer.decode(look.ids), silent = state.mute.split(","), n = silent.length;
  const group = kinds.find((kind) => silent.filter((name) => name.startsWith(kind)).length === model.about.layers * model.about.heads);
  const share = async () => setCopied(await navigator.clipboard.writeText(location.href).then(() => true, () => false));
  return html`
    <aside class="broken" aria-live="polite">
      <p>${n} of ${3 * model.about.layers * model.about.heads} heads silent: ${text === look.wholeText ? `the translation holds${group === "encoder" ? ": each English piece still brings its own word and its place" : ""}.` : html`<span class="was">no longer <b lang=${state.to}>${look.wholeText}</b> but </span><b lang=${state.to}>${text || "nothing"}</b>`}</p>
      ${text !== look.wholeText && html`<button onClick=${share}>${copied ? "Copied" : "Copy link"}</button>`}
      <button onClick=${() => change({ mute: "" })}>Let all speak</button>
    </aside>`;
}

/** What the residual stream would say if the layers ended here; and the choice at the end, at a temperature. */
export function Lens({ model, state, change, look }) {
  const t = Math.min(state.t, look.written.length - 1);
  const stages = ["embedding", ...Array.from({ length: model.about.layers }, (_, i) =>
    ["own words", "the English", "feed-forward"].map((what) => `layer ${i + 1}: ${what}`)).flat()];
  const logits = stages.map((_, i) => look.logits(i, t));
  const choice = logSoftmax(logits.at(-1), state.temp).map(Math.exp), best = top(choice, 7);
  const others = Math.max(0, 1 - best.reduce((sum, id) => sum + choice[id], 0));
  return html`
    <section aria-labelledby="lens">
      <h2 id="lens">How “${shown(look.written[t])}” comes about</h2>
      <p class="caption">The row that writes this piece begins as the embedding of the piece before it, and each sublayer adds to it. The table shows what the model would write if it ended there (a <${Term} name="logit lens" page="09_transformer" />).
        Beside it is the last choice as a distribution. Sampling draws from it, and a low temperature makes it sharper; the translation above always takes the most likely piece.</p>
      <div class="near">
        <div class="scroll" tabindex="0" role="region" aria-label="What each step would write"><table class="lens"><tbody>${logits.map((row, i) => {
          const p = logSoftmax(row).map(Math.exp);
          return html`<tr><th scope="row">${stages[i]}</th>${top(p, 3).map((id) => html`
            <td style=${`--w:${p[id]}`}><span lang=${state.to}>${shown(model.tokenizer.piece(id))}</span> <small>${percent(p[id])} %</small></td>`)}</tr>`;
        })}</tbody></table></div>
        <div class="choice">
          <label for="temp">Temperature <output>${state.temp.toFixed(1)}</output></label>
          <input id="temp" type="range" min="0.2" max="3" step="0.1" value=${state.temp} onInput=${(event) => change({ temp: Number(event.target.value) })} />
          <ol>${best.map((id) => html`<li><span lang=${state.to}>${shown(model.tokenizer.piece(id))}</span>
            <i style=${`width:${100 * choice[id]}%`}></i><small>${percent(choice[id])} %</small></li>`)}
            <li><span>all others</span><i style=${`width:${100 * others}%`}></i><small>${percent(others)} %</small></li></ol>
        </div>
      </div>
    </section>`;
}

const pathOf = (tree, node) => (node.parent < 0 ? [] : [...pathOf(tree, tree.nodes[node.parent]), node.token]);

/** The tree of a beam search: one column for each step, the best at the top. */
export function Beam({ model, state, change, look, onDrawn }) {
  const [tree, setTree] = useState(null), [step, setStep] = useState(99), [touched, setTouched] = useState(null);
  useEffect(() => {
    const timer = setTimeout(() => {  // the translation is drawn first
      setTree(model.beam(look.src, state.beam, 0.6, look.gates));
      setStep(99);
      setTouched(null);
    });
    return () => clearTimeout(timer);
  }, [look, state.beam]);
  const drawn = useMemo(() => {
    if (!tree) return null;
    const kept = new Set();
    for (let id = tree.winner; id >= 0; id = tree.nodes[id].parent) kept.add(id);
    const columns = [];
    for (const node of tree.nodes) (columns[node.depth] ??= []).push(node);
    const at = new Map(columns.flatMap((column) => column.map((node, rank) => [node.id, [node.depth * 172 + 10, rank * 30 + 22]])));
    return { kept, columns, at, width: columns.length * 172 + 10, height: Math.max(...columns.map((c) => c.length)) * 30 + 14 };
  }, [tree]);
  useEffect(() => drawn && onDrawn(), [drawn]);
  const box = useRef(null);
  useEffect(() => {
    if (box.current && step < 99) box.current.scrollLeft = step * 172 - box.current.clientWidth / 2;
  }, [step, drawn]);
  if (!drawn) return null;
  const now = Math.min(step, drawn.columns.length - 1);
  const winner = model.tokenizer.decode(tree.best), other = winner !== model.tokenizer.decode(look.ids);
  const visible = tree.nodes.filter((node) => node.depth <= now);
  const alive = (node) => node.fate !== "dropped";
  const best = now + 1 === drawn.columns.length ? tree.nodes[tree.winner] : drawn.columns[now][0];
  const end = touched && touched.depth <= now ? touched : best, way = [];
  for (let node = end; node.parent >= 0; node = tree.nodes[node.parent]) way.unshift(node);
  const walk = (event) => {
    const column = drawn.columns[end.depth], children = drawn.columns[end.depth + 1]?.filter((node) => node.parent === end.id) ?? [];
    const next = {
      ArrowLeft: tree.nodes[end.parent], ArrowRight: children[0], ArrowUp: column[column.indexOf(end) - 1], ArrowDown: column[column.indexOf(end) + 1],
    }[event.key];
    if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    if (next && next.depth <= now) event.currentTarget.querySelector(`[data-id="${next.id}"]`).focus();
  };
  const fate = end.id === tree.winner ? "the winner" : { over: "finished", dropped: "dropped here" }[end.fate] ?? "kept";
  return html`
    <section aria-labelledby="beam">
      <h2 id="beam">What else it might have written</h2>
      <p class="caption">This is <${Term} name="beam search" page="12_inference" />. At each step, every beginning that is kept grows by one piece, and the most probable ${state.beam > 1 ? `${state.beam} of them are` : "one is"} kept; the others are dropped (grey). A
        number is the log-probability of everything up to there: −0.1 is 90 %, −6.9 is one in a thousand. A finished translation (blue) is ranked by its score, which is that number divided by a length
        penalty, so that longer ones have a chance; the best score wins (orange). Point at a piece, tap it, or use the arrow keys to read its whole beginning.${other ? html` Here the search has found a better translation than the one above: <b lang=${state.to}>${winner}</b>.` : ""}</p>
      <p class="caption"><b>Why keep more than one?</b> While all its heads speak, this model is so sure of itself that one is enough. <button type="button" class="try"
        onClick=${() => change({ q: "464", to: "de", mute: "cross-0-0,cross-0-1", beam: 1, c: -1, t: 0 })}>Silence two heads and write 464</button> Now <i>vier</i> looks best at the first step, but
        everything that can follow it is improbable. Keep two beginnings, and <i>vierhundert</i> survives its first step and wins.</p>
      <p class="sliders">
        <label>Beginnings kept <output>${state.beam}</output>
          <input type="range" min="1" max="8" aria-label="Beginnings kept" value=${state.beam} onInput=${(event) => change({ beam: Number(event.target.value) })} /></label>
        <label>Step <output>${now}</output> of ${drawn.columns.length - 1}
          <input type="range" min="0" aria-label="Step" max=${drawn.columns.length - 1} value=${now} onInput=${(event) => setStep(Number(event.target.value))} /></label>
      </p>
      <p class="beginning" aria-live="polite"><b lang=${state.to}>${model.tokenizer.decode(way.map((node) => node.token)) || "(nothing yet)"}</b>
        ${` ${end.total < -7 ? "below 0.1" : percent(Math.exp(end.total))} %, ${way.length} piece${way.length === 1 ? "" : "s"}, ${fate}${end.score === undefined ? "" : `, score ${end.score.toFixed(2)}`}`}</p>
      <div class="scroll" ref=${box} tabindex="0" role="region" aria-label="The tree of beam search"><svg class="tree" role="tree" aria-label="Beginnings" width=${drawn.width} height=${drawn.height} onKeyDown=${walk}>
        ${visible.filter((node) => node.parent >= 0).map((node) => {
          const [[x0, y0], [x1, y1]] = [drawn.at.get(node.parent), drawn.at.get(node.id)];
          return html`<path class=${`${drawn.kept.has(node.id) && now + 1 === drawn.columns.length ? "won" : alive(node) ? "" : "dead"}`}
            d="M${x0 + 128} ${y0} C${x0 + 150} ${y0} ${x1 - 22} ${y1} ${x1} ${y1}" />`;
        })}
        ${visible.map((node) => {
          const [x, y] = drawn.at.get(node.id), won = drawn.kept.has(node.id) && now + 1 === drawn.columns.length;
          const kind = `${won ? "won" : alive(node) ? node.fate : "dead"}${touched && way.includes(node) ? " seen" : ""}`;
          return html`<g class=${kind} transform="translate(${x} ${y})" tabindex=${node === end ? 0 : -1} data-id=${node.id} role="treeitem"
              aria-label=${`${cut(shown(model.tokenizer.piece(node.token)))} ${node.parent < 0 ? "" : node.total.toFixed(1)}: ${model.tokenizer.decode(pathOf(tree, node))}, ${node.fate}`} onFocus=${() => setTouched(node)} onPointerEnter=${() => setTouched(node)}
              onPointerLeave=${(event) => event.pointerType === "mouse" && setTouched(null)}>
            <rect x="0" y="-12" width="128" height="24" rx="6" />
            <text x="6" y="4" lang=${state.to}>${cut(shown(model.tokenizer.piece(node.token)))}</text>
            <text x="123" y="4" class="total">${node.parent < 0 ? "" : node.total.toFixed(1)}</text></g>`;
        })}
      </svg></div>
    </section>`;
}

/** The same sentences by the model as it was while it learned. */
export function Replay({ model, state, change }) {
  const { replay, replayed, losses } = model.about;
  const [which, setWhich] = useState(0);
  const n = state.step < 0 ? replay.length - 1 : Math.min(state.step, replay.length - 1), frame = replay[n];
  const { to, text, right, source } = replayed[which];
  const last = losses.at(-1)[0], worst = Math.max(...losses.map(([, loss]) => loss));
  const x = (step) => (300 * step) / last, y = (loss) => 84 - (80 * loss) / worst;
  return html`
    <section aria-labelledby="learned">
      <h2 id="learned">How it learned</h2>
      <p class="caption">This is the same model earlier in its training. Move the slider: when does it begin to read the English, and when does the translation come out right?
        The map is the mean of the last layer's cross-attention heads while the model is given the right answer piece by piece (<i>teacher forcing</i>).</p>
      <p class="sliders"><label>Number <select onChange=${(event) => setWhich(Number(event.target.value))}>
          ${replayed.map((row, i) => html`<option value=${i}>${row.number.toLocaleString("en")} → ${row.to === "de" ? "German" : "Korean"}</option>`)}</select></label>
        <label>Updates <output>${frame.step}</output>
          <input type="range" min="0" aria-label="Updates" aria-valuetext=${frame.step} max=${replay.length - 1} value=${n} onInput=${(event) => change({ step: Number(event.target.value) })} /></label></p>
      <div class="near even">
        <div>
          <p class="result small" lang=${to}>${frame.written[which] || "(nothing)"}</p>
          <p class="caption">${frame.written[which] === text ? "right" : html`should be <b lang=${to}>${text}</b>`}</p>
          <svg class="curve" viewBox="-4 0 312 90" role="img" aria-label="loss while training: ${frame.step} updates">
            <polyline points=${losses.map(([step, loss]) => `${x(step)},${y(loss)}`).join(" ")} />
            <circle cx=${x(frame.step)} cy=${y((losses.find(([step]) => step >= frame.step) ?? losses.at(-1))[1])} r="4" />
            <text x="300" y="12" text-anchor="end">loss</text>
          </svg>
        </div>
        <div class="scroll" tabindex="0" role="region" aria-label="Cross-attention of the last layer, mean of its heads"><table class="large still">
          <thead><tr><th></th>${source.map((piece) => html`<th scope="col"><span>${shown(piece)}</span></th>`)}<th scope="col"><span>end</span></th></tr></thead>
          <tbody>${frame.maps[which].map((line, j) => html`<tr><th scope="row" lang=${to}>${shown(right[j] ?? "<eos>")}</th>
            ${line.map((w) => html`<td style=${`--w:${w}`}><span class="hidden">${percent(w)} %</span></td>`)}</tr>`)}</tbody>
        </table></div>
      </div>
    </section>`;
}

/** What to try. */
export const Tasks = () => html`
  <section aria-labelledby="find">
    <h2 id="find">Three things to find</h2>
    <ol class="tasks">
      <li>Cover <b>de</b>. Which language does the model write now?</li>
      <li>Break the translation of 58074 with as few silent heads as you can. Are they the ones with the clearest maps? Send a friend your link: it holds the heads you chose.</li>
      <li>After how many updates does 58074 come out right, and what had the model learned before that?</li>
    </ol>
    <details><summary>What we found</summary>
      <ol class="tasks">
        <li>It begins in German and ends in Korean. The tag is all that tells it which language to write.</li>
        <li>One is enough: 1.3 or 1.4 where the writing reads the English, 1.2 or 1.4 where it reads itself. The head with the clearest map, 2.3, can be silenced without harm.</li>
        <li>By 200. At 105 it already put the units before the tens and knew when to stop, but wrote <i>neunzig</i> for <i>fünfzig</i>.</li>
      </ol>
    </details>
  </section>`;
