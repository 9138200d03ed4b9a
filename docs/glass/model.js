// The translator: its weights, the searches that ask it, and what it computed on the way.
import { Tokenizer } from "./tokenizer.js";
import { sentence } from "./numbers.js";
import { Transformer, unpack } from "./transformer.js";

export const eos = 2, bos = 1, longest = 32;
export const kinds = ["encoder", "decoder", "cross"];

/** The bytes of a file, unpacked; `progress` is told the share that has come. */
async function unpacked(packed, bytes, progress) {
  if (!packed.ok) throw new Error(`${packed.url}: ${packed.status}`);
  let come = 0;
  const counted = new TransformStream({ transform(chunk, out) { progress((come += chunk.length) / bytes); out.enqueue(chunk); } });
  return new Response(packed.body.pipeThrough(counted).pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

export class Model {
  static async load(progress = () => {}, base = new URL(".", import.meta.url)) {
    const weights = fetch(new URL("weights.bin.gz", base));  // both at once
    const about = await fetch(new URL("model.json", base)).then((answer) => answer.json());
    const buffer = await unpacked(await weights, about.bytes, progress);
    return new Model(new Transformer(unpack(buffer, about.shapes), about), about);
  }

  constructor(transformer, about) {
    Object.assign(this, { transformer, about, tokenizer: new Tokenizer(about), gates: this.allHeads(about) });
  }

  /** A factor for each head, by kind, layer and head: 1 lets it speak, 0 silences it. */
  allHeads({ layers, heads }) {
    return kinds.map(() => Array.from({ length: layers }, () => Array(heads).fill(1)));
  }

  /** What the encoder reads of a text: its ids, tag in front, end behind. */
  source(text, to) {
    return [...this.tokenizer.encode(`>>${to}<< ${sentence(text)}`), eos];
  }

  /** One token further: the new state, and log P of each next token. */
  next(state, token) {
    const { state: after, stages } = this.transformer.step(state, token);
    return { state: after, logP: logSoftmax(this.transformer.logits(stages.at(-1))) };
  }

  /** The most probable token, again and again. Returns ids, the end included if it came. */
  greedy(src, gates = this.gates) {
    const ids = [];
    let state = this.transformer.start(src, gates), logP;
    while (ids.length < longest && ids.at(-1) !== eos) {
      ({ state, logP } = this.next(state, ids.at(-1) ?? bos));
      ids.push(argmax(logP));
    }
    return ids;
  }

  /** How probable each piece of a translation is, given those before it. */
  probabilities(src, ids, gates = this.gates) {
    let state = this.transformer.start(src, gates), logP;
    return [bos, ...ids.slice(0, -1)].map((token, t) => {
      ({ state, logP } = this.next(state, token));
      return Math.exp(logP[ids[t]]);
    });
  }

  /** The same without one piece of the source, which becomes padding: what is written now, and how probable the old pieces are. */
  cover(src, ids, place, gates = this.gates) {
    const covered = src.map((id, i) => (i === place ? 0 : id)), written = this.greedy(covered, gates);
    const pieces = written.map((id) => this.tokenizer.piece(id));
    return { text: this.tokenizer.decode(written), pieces, probabilities: this.probabilities(covered, ids, gates) };
  }

  /** Everything about one translation: what a head computed, the logits after each sublayer, and the labels of both sides. */
  look(src, ids, gates = this.gates) {
    const read = [bos, ...ids.slice(0, -1)], start = this.transformer.start(src, gates), steps = [];
    for (const token of read) steps.push(this.transformer.step(steps.at(-1)?.state ?? start, token));
    const label = (table) => table.map((id) => this.tokenizer.piece(id));
    const head = (kind, layer, h) => {
      const of = (rows) => rows.map((row) => row[h]);
      if (kind === "encoder") return Object.fromEntries(Object.entries(start.seen[layer]).map(([part, rows]) => [part, of(rows)]));
      const [keys, values] = kind === "decoder" ? steps.at(-1).state.past[layer] : start.source[layer];
      const seen = steps.map((step) => step.seen[layer][kind]);
      const wide = (row) => Float32Array.from(keys, (_, i) => row[i] ?? 0);  // what comes later has no weight
      return { queries: seen.map(({ query }) => query[h]), keys: of(keys), values: of(values), weights: seen.map(({ weights }) => wide(weights[h])) };
    };
    const logits = (stage, t) => this.transformer.logits(steps[t].stages[stage]);
    return { head, logits, source: label(src), read: label(read), written: label(ids), ids };
  }

  /**
   * Beam search as in 12_inference, with all that it looked at: a tree of nodes
   * { id, parent, token, total, depth, fate }, fate "open", "over" (finished), "dropped", and the best id.
   */
  beam(src, k, alpha = 0.6, gates = this.gates) {
    const nodes = [{ id: 0, parent: -1, token: bos, total: 0, depth: 0, fate: "open", state: this.transformer.start(src, gates) }];
    const penalty = (length) => ((5 + length) / 6) ** alpha;
    const path = (node) => (node.parent < 0 ? [] : [...path(nodes[node.parent]), node.token]);
    let open = [nodes[0]], best = null, bestScore = -Infinity;
    for (let t = 0; t < longest && open.length; t++) {
      const candidates = open.flatMap((node) => {
        const { state, logP } = this.next(node.state, node.token);
        return top(logP, 2 * k).map((token) => ({ node, state, token, total: node.total + logP[token] }));
      }).sort((a, b) => b.total - a.total).slice(0, 2 * k);
      const grown = candidates.map(({ node, state, token, total }) => ({
        id: 0, parent: node.id, token, total, depth: t + 1, fate: token === eos || t + 1 === longest ? "over" : "dropped", state,
      }));
      for (const node of grown) node.id = nodes.push(node) - 1;
      for (const node of grown.slice(0, k).filter(({ fate }) => fate === "over")) {
        node.score = node.total / penalty(t + 1);
        if (node.score > bestScore) [best, bestScore] = [node, node.score];
      }
      open = grown.filter(({ fate }) => fate === "dropped").slice(0, k);
      for (const node of open) node.fate = "open";
      const largest = Math.max(penalty(longest), penalty(Math.min(longest, t + 2)));
      if (open.length && !(open[0].total / largest > bestScore)) break;
    }
    return { nodes, best: path(best), winner: best.id, score: bestScore };
  }
}

export function logSoftmax(logits, temperature = 1) {
  const scaled = Float64Array.from(logits, (x) => x / temperature);
  const largest = scaled.reduce((a, b) => Math.max(a, b), -Infinity);
  const sum = scaled.reduce((total, x) => total + Math.exp(x - largest), 0);
  return scaled.map((x) => x - largest - Math.log(sum));
}

export function argmax(values) {
  return values.reduce((best, x, i) => (x > values[best] ? i : best), 0);
}

/** The indices of the n largest, largest first. */
export function top(values, n) {
  return Array.from(values.keys()).sort((a, b) => values[b] - values[a]).slice(0, n);
}
