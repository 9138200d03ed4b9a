// What is seen: each part of the page is a function of the model, of what was computed, and of what was chosen.
import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { kinds, logSoftmax, top } from "./model.js";
import { sentence, spoken } from "./numbers.js";

const titles = { encoder: "The English reads itself", decoder: "The writing reads itself", cross: "The writing reads the English" };
const shown = (piece) => piece.replace(/^ /, "␣").replace("<eos>", "end").replace("<bos>", "begin");
const percent = (p) => (p >= 0.995 ? "100" : p >= 0.0995 ? (100 * p).toFixed(0) : (100 * p).toFixed(1));
const cut = (text) => (text.length > 12 ? `${text.slice(0, 11)}…` : text);
const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** "cross-1-0" → its parts, with the maps and labels that belong to it. */
function chosen(look, name) {
  const [kind, layer, head] = (name || look.map).split("-");
  const at = (part) => look[`${kind}_${part}`].at(Number(layer), 0, Number(head));
  const rows = kind === "encoder" ? look.source : look.written, columns = kind === "decoder" ? look.read : look.source;
  return { kind, layer: Number(layer), head: Number(head), at, rows, columns, weights: at("weights").rows().map((row) => row.data) };
}

export function Ask({ model, state, change, look, error }) {
  const [text, setText] = useState(state.q);
  useEffect(() => setText(state.q), [state.q]);
  const go = (q, to = state.to) => q.trim() && change({ q, to, t: 0, e: -1, s: -1 });
  const examples = ["58074", "777", "21", "forty thousand and two", "234567"];
  return html`
    <header>
      <h1>The glass translator</h1>
      <p class="lead">A small Transformer writes numbers in German or Korean, and shows all that it computes. Type one, in digits or in English words.</p>
      <form class="ask" onSubmit=${(event) => { event.preventDefault(); go(text); }}>
        <label class="hidden" for="q">A number</label>
        <input id="q" value=${text} onInput=${(event) => setText(event.target.value)} autocomplete="off" maxlength="120" />
        <fieldset><legend class="hidden">Into</legend>
          ${[["de", "German"], ["ko", "Korean"]].map(([to, name]) => html`
            <label><input type="radio" name="to" checked=${state.to === to} onChange=${() => go(text, to)} /><span>${name}</span></label>`)}
        </fieldset>
        <button>Translate</button>
      </form>
      <p class="examples">Try ${examples.map((q) => html`<button type="button" onClick=${() => go(q)}>${q}</button> `)}</p>
      ${error && html`<p role="alert">${error}</p>`}
    </header>`;
}

/** The English on the left, the translation on the right, the weights of one head between them. */
export function Bridge({ model, state, change, look }) {
  const [done, setDone] = useState(look.written.length);
  useEffect(() => {
    if (calm()) return setDone(look.written.length);
    setDone(0);
    const timer = setInterval(() => setDone((n) => (n < look.written.length ? n + 1 : (clearInterval(timer), n))), 260);
    return () => clearInterval(timer);
  }, [look]);
  const name = (state.map || look.map).startsWith("cross") ? state.map || look.map : look.map;
  const { weights, layer, head } = chosen(look, name);
  const row = 38, height = row * Math.max(look.source.length, look.written.length);
  const y = (i, n) => height / 2 + (i - (n - 1) / 2) * row;
  const t = Math.min(state.t, look.written.length - 1);
  const text = model.tokenizer.decode(look.ids), right = look.number === null ? "" : spoken(look.number, state.to);
  const off = state.mute.split(",").includes(name);
  return html`
    <section aria-labelledby="writes">
      <h2 id="writes" class="hidden">The translation</h2>
      <p class="result" lang=${state.to} aria-live="polite">${text || "(nothing)"}</p>
      <p class="verdict">${!right
        ? "No number in English below a million: it has to make something up."
        : text === right ? html`<b class="right">✓ right</b>` : html`<b class="wrong">✗</b> right is <b lang=${state.to}>${right}</b>`}
        ${right && look.number >= 100_000 ? " It has never seen a number so large." : ""}</p>
      <p class="caption">It writes from top to bottom, each time the likeliest piece. Choose a piece: where did it look to write it?
        (The lines are those of one head, ${layer + 1}.${head + 1} of “${titles.cross}”${off ? ", which is silent now" : ""}. ␣ is a space; ${">>"} ${state.to} ${"<<"} asks for ${state.to === "de" ? "German" : "Korean"}.)</p>
      <div class=${`bridge ${off ? "off" : ""}`} style=${`height:${height}px`}>
        <ol class="from" aria-label="English pieces">${look.source.map((piece, i) => html`
          <li style=${`top:${y(i, look.source.length) - row / 2}px`}><span style=${`--w:${weights[t]?.[i] ?? 0}`}>${shown(piece)}</span></li>`)}</ol>
        <svg viewBox="0 0 100 ${height}" preserveAspectRatio="none" aria-hidden="true">
          ${weights.slice(0, done).flatMap((line, j) => Array.from(line, (w, i) => w > 0.02 && html`
            <path class=${j === t ? "strong" : ""} stroke-width=${Math.max(0.6, 12 * w)}
              d="M0 ${y(i, look.source.length)} C50 ${y(i, look.source.length)} 50 ${y(j, look.written.length)} 100 ${y(j, look.written.length)}" />`))}
        </svg>
        <ol class="to" aria-label="Pieces written">${look.written.map((piece, j) => html`
          <li class=${j < done ? "" : "unwritten"} style=${`top:${y(j, look.written.length) - row / 2}px`}>
            <button aria-pressed=${j === t} onClick=${() => change({ t: j })} lang=${state.to}>${shown(piece)}</button></li>`)}</ol>
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
  const mute = (which) => change({ mute: (muted.includes(which) ? muted.filter((x) => x !== which) : [...muted, which]).join(",") });
  const group = (kind) => Array.from({ length: layers * heads }, (_, i) => `${kind}-${Math.floor(i / heads)}-${i % heads}`);
  const muteAll = (kind) => change({ mute: (group(kind).every((x) => muted.includes(x)) ? muted.filter((x) => !x.startsWith(kind)) : [...new Set([...muted, ...group(kind)])]).join(",") });
  return html`
    <section aria-labelledby="heads">
      <h2 id="heads">Where every head looks</h2>
      <p class="caption">A head is one way of looking; 2.3 is the third of layer 2. Choose a map to see it large: a row for each piece that reads or
        is being written, a column for each that is looked at. Take a tick away to silence a head: mostly nothing breaks, others know it too. Then silence a whole group.</p>
      <div class="kinds">${kinds.map((kind) => html`
        <div><h3>${titles[kind]} <button class="all" onClick=${() => muteAll(kind)}>${group(kind).every((x) => muted.includes(x)) ? "let them speak" : `silence all ${layers * heads}`}</button></h3>
          ${Array.from({ length: layers }, (_, layer) => html`
            <div class="layer" role="group" aria-label="layer ${layer + 1}">${Array.from({ length: heads }, (_, head) => {
              const which = `${kind}-${layer}-${head}`, off = muted.includes(which);
              return html`
                <div class=${`head ${off ? "off" : ""}`}>
                  <button class="map" aria-pressed=${which === name} aria-label="${titles[kind]}: layer ${layer + 1}, head ${head + 1}"
                    onClick=${() => change({ map: which, s: -1 })}><${Small} weights=${chosen(look, which).weights} /></button>
                  <label><input type="checkbox" checked=${!off} onChange=${() => mute(which)}
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
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
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
  const query = map.at("queries").at(t).data, key = map.at("keys").at(s).data, value = map.at("values").at(s).data;
  const products = Array.from(query, (q, i) => q * key[i]), dot = products.reduce((a, b) => a + b, 0);
  const scores = map.at("keys").rows().map(({ data }) => Array.from(query, (q, i) => q * data[i]).reduce((a, b) => a + b, 0) / Math.sqrt(query.length));
  const hidden = map.kind === "decoder" && s > t, largest = Math.max(...products.map(Math.abs));
  const norm = (v) => Math.hypot(...v), silent = state.mute.split(",").includes(name);
  return html`
    <div class="sum">
      <h3>The sum behind the cell</h3>
      <p>${map.kind === "encoder" ? html`<b>${shown(map.rows[t])}</b> asks,` : html`To write <b>${shown(map.rows[t])}</b> it asks,`}
        <b> ${shown(map.columns[s])}</b> answers. Query (of the one) times key (of the other) in ${query.length} coordinates, blue for, red against:</p>
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
      <p>All values of the row, so weighted, are added: that is what the head says.</p>
    </div>`;
}

/** What silencing has done, in sight wherever one is. */
export function Whole({ model, state, change, look }) {
  if (!state.mute) return null;
  const text = model.tokenizer.decode(look.ids), n = state.mute.split(",").length;
  return html`
    <aside class="broken" aria-live="polite">
      <p>${n} head${n > 1 ? "s" : ""} silent: ${text === look.wholeText ? "the translation holds." : html`<span class="was">no longer <b lang=${state.to}>${look.wholeText}</b> but </span><b lang=${state.to}>${text || "nothing"}</b>`}</p>
      <button onClick=${() => change({ mute: "" })}>Let all speak</button>
    </aside>`;
}

/** What the residual stream would say if the layers ended here; and the choice at the end, at a temperature. */
export function Lens({ model, state, change, look }) {
  const t = Math.min(state.t, look.written.length - 1);
  const stages = ["embedding", ...Array.from({ length: model.about.layers }, (_, i) =>
    ["own words", "the English", "feed-forward"].map((what) => `layer ${i + 1}: ${what}`)).flat()];
  const logits = stages.map((_, i) => look.logits.at(i, 0, t).data);
  const choice = logSoftmax(logits.at(-1), state.temp).map(Math.exp), best = top(choice, 7);
  const others = Math.max(0, 1 - best.reduce((sum, id) => sum + choice[id], 0));
  return html`
    <section aria-labelledby="lens">
      <h2 id="lens">How “${shown(look.written[t])}” comes about</h2>
      <p class="caption">A vector begins as the piece before it, and each step changes it. What would be written if the model ended there?
        Beside it, the last choice, were it drawn by lot: a low temperature is sure, a high one daring (the translation above draws no lots).</p>
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

/** The tree of a beam search: a column a step, the best above. */
export function Beam({ model, state, change, look, onDrawn }) {
  const [tree, setTree] = useState(null), [step, setStep] = useState(99), [touched, setTouched] = useState(null);
  useEffect(() => {
    let current = true;
    model.beam(look.src, state.beam, 0.6, look.gates).then((found) => current && (setTree(found), setStep(99), setTouched(null)));
    return () => { current = false; };
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
  const fate = end.id === tree.winner ? "the winner" : { over: "finished", dropped: "dropped here" }[end.fate] ?? "kept";
  return html`
    <section aria-labelledby="beam">
      <h2 id="beam">What else it might have written</h2>
      <p class="caption">Each step, every kept beginning grows by one piece; the best ${state.beam > 1 ? state.beam : ""} of all
        ${state.beam > 1 ? " stay" : " stays"}, the others are dropped (grey). Blue is finished, orange wins. A number is the logarithm of the probability of everything up to
        there: −0.1 is 90 %, −6.9 one in a thousand. Point at a piece, or tap it, to read its whole beginning.${other ? html` Here it chose otherwise than the translation above: <b lang=${state.to}>${winner}</b>.` : ""}</p>
      <p class="sliders">
        <label>Beginnings kept <output>${state.beam}</output>
          <input type="range" min="1" max="8" value=${state.beam} onInput=${(event) => change({ beam: Number(event.target.value) })} /></label>
        <label>Step <output>${now}</output> of ${drawn.columns.length - 1}
          <input type="range" min="0" max=${drawn.columns.length - 1} value=${now} onInput=${(event) => setStep(Number(event.target.value))} /></label>
      </p>
      <p class="beginning" aria-live="polite"><b lang=${state.to}>${model.tokenizer.decode(way.map((node) => node.token)) || "(nothing yet)"}</b>
        ${` ${end.total < -7 ? "below 0.1" : percent(Math.exp(end.total))} %, ${way.length} piece${way.length === 1 ? "" : "s"}, ${fate}`}</p>
      <div class="scroll" ref=${box} tabindex="0" role="region" aria-label="The tree of beam search"><svg class="tree" width=${drawn.width} height=${drawn.height}>
        ${visible.filter((node) => node.parent >= 0).map((node) => {
          const [[x0, y0], [x1, y1]] = [drawn.at.get(node.parent), drawn.at.get(node.id)];
          return html`<path class=${`${drawn.kept.has(node.id) && now + 1 === drawn.columns.length ? "won" : alive(node) ? "" : "dead"}`}
            d="M${x0 + 128} ${y0} C${x0 + 150} ${y0} ${x1 - 22} ${y1} ${x1} ${y1}" />`;
        })}
        ${visible.map((node) => {
          const [x, y] = drawn.at.get(node.id), won = drawn.kept.has(node.id) && now + 1 === drawn.columns.length;
          const kind = `${won ? "won" : alive(node) ? node.fate : "dead"}${touched && way.includes(node) ? " seen" : ""}`;
          return html`<g class=${kind} transform="translate(${x} ${y})" onPointerEnter=${() => setTouched(node)}
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
      <p class="caption">The same model after a few updates, and after more. Move the slider: when does it find the English, and when does it come right?
        The map is the mean of the last layer's heads while the model is made to write the right answer.</p>
      <p class="sliders"><label>Number <select onChange=${(event) => setWhich(Number(event.target.value))}>
          ${replayed.map((row, i) => html`<option value=${i}>${row.number.toLocaleString("en")} → ${row.to === "de" ? "German" : "Korean"}</option>`)}</select></label>
        <label>Updates <output>${frame.step}</output>
          <input type="range" min="0" max=${replay.length - 1} value=${n} onInput=${(event) => change({ step: Number(event.target.value) })} /></label></p>
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
            ${line.map((w) => html`<td style=${`--w:${w}`}></td>`)}</tr>`)}</tbody>
        </table></div>
      </div>
    </section>`;
}

/** What to try. */
export const Tasks = () => html`
  <section aria-labelledby="find">
    <h2 id="find">Three things to find</h2>
    <ol class="tasks">
      <li>Silence one head after the other, of 58074. How many are needed? Is it those with the clearest maps?</li>
      <li>Silence all that read the English: how does it know now which language to write?</li>
      <li>After how many updates does 58074 come right, and what had it learned before that?</li>
    </ol>
  </section>`;
