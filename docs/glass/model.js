// The translator: a graph that gives every number on the way, and the searches that ask it.
import { Tokenizer } from "./tokenizer.js";
import { sentence } from "./numbers.js";

export const eos = 2, bos = 1, longest = 32;
const parts = ["queries", "keys", "values", "weights"];
export const kinds = ["encoder", "decoder", "cross"];

async function unpacked(url) {
  const packed = await fetch(url);
  if (!packed.ok) throw new Error(`${url}: ${packed.status}`);
  return new Response(packed.body.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/** A tensor that is asked by its indices: at(layer, row, head) is what is left of it. */
export class Tensor {
  constructor(data, dims) {
    this.data = data;
    this.dims = dims;
  }
  at(...indices) {
    let [data, dims] = [this.data, this.dims];
    for (const i of indices) {
      const size = data.length / dims[0];
      data = data.subarray(i * size, (i + 1) * size);
      dims = dims.slice(1);
    }
    return dims.length ? new Tensor(data, dims) : data[0];
  }
  rows() {
    return Array.from({ length: this.dims[0] }, (_, i) => this.at(i));
  }
}

export class Model {
  static async load(base = new URL(".", import.meta.url)) {
    const at = (name) => new URL(name, base).href;
    const [ort, wasm, graph, about] = await Promise.all([
      import(at("vendor/ort.wasm.min.mjs")), unpacked(at("vendor/ort.wasm.gz")), unpacked(at("model.onnx.gz")),
      fetch(at("model.json")).then((answer) => answer.json()),
    ]);
    Object.assign(ort.env.wasm, { numThreads: 1, wasmBinary: wasm, wasmPaths: { mjs: at("vendor/ort-wasm-simd-threaded.mjs") } });
    return new Model(ort, await ort.InferenceSession.create(new Uint8Array(graph)), about);
  }

  constructor(ort, session, about) {
    Object.assign(this, { ort, session, about, tokenizer: new Tokenizer(about), gates: this.allHeads(about) });
    this.queue = Promise.resolve();
  }

  allHeads({ layers, heads }) {
    return new Float32Array(3 * layers * heads).fill(1);
  }

  gate(kind, layer, head) {
    return (kinds.indexOf(kind) * this.about.layers + layer) * this.about.heads + head;
  }

  /** What the encoder reads of a text: its ids, tag in front, end behind. */
  source(text, to) {
    return [...this.tokenizer.encode(`>>${to}<< ${sentence(text)}`), eos];
  }

  /** Run the graph: `src` ids, `rows` of what the decoder has read, all of one length. Only `wanted` outputs come back. */
  async run(src, rows, wanted = this.session.outputNames, gates = this.gates) {
    const ids = (table) => new this.ort.Tensor("int64", BigInt64Array.from(table.flat(), BigInt), [table.length, table[0].length]);
    const feeds = {
      src: ids(rows.map(() => src)), tgt: ids(rows),
      gates: new this.ort.Tensor("float32", gates, [3, this.about.layers, this.about.heads]),
    };
    const found = await (this.queue = this.queue.catch(() => {}).then(() => this.session.run(feeds, wanted)));
    return Object.fromEntries(Object.entries(found).map(([name, { data, dims }]) => [name, new Tensor(data, dims)]));
  }

  /** log P of the next token for each row. */
  async next(src, rows, gates) {
    const { logits } = await this.run(src, rows, ["logits"], gates);
    const last = logits.at(logits.dims[0] - 1);
    return last.rows().map((row) => logSoftmax(row.at(row.dims[0] - 1).data));
  }

  /** The most probable token, again and again. Returns ids, the end included if it came. */
  async greedy(src, gates) {
    const ids = [];
    while (ids.length < longest && ids.at(-1) !== eos) {
      const [logP] = await this.next(src, [[bos, ...ids]], gates);
      ids.push(argmax(logP));
    }
    return ids;
  }

  /** Everything about one translation: an object of tensors, and the labels of both sides. */
  async look(src, ids, gates) {
    const read = [bos, ...ids.slice(0, -1)];
    const out = await this.run(src, [read], undefined, gates);
    const label = (table) => table.map((id) => this.tokenizer.piece(id));
    return { ...out, source: label(src), read: label(read), written: label(ids), ids };
  }

  /**
   * Beam search as in 12_inference, with all that it looked at: a tree of nodes
   * { id, parent, token, total, depth, fate }, fate "open", "over" (finished), "dropped", and the best id.
   */
  async beam(src, k, alpha = 0.6, gates) {
    const nodes = [{ id: 0, parent: -1, token: bos, total: 0, depth: 0, fate: "open" }];
    const penalty = (length) => ((5 + length) / 6) ** alpha;
    const path = (node) => (node.parent < 0 ? [] : [...path(nodes[node.parent]), node.token]);
    let open = [nodes[0]], best = null, bestScore = -Infinity;
    for (let t = 0; t < longest && open.length; t++) {
      const logP = await this.next(src, open.map((node) => [bos, ...path(node)]), gates);
      const candidates = open.flatMap((node, i) => top(logP[i], 2 * k).map((token) => ({ node, token, total: node.total + logP[i][token] })))
        .sort((a, b) => b.total - a.total).slice(0, 2 * k);
      const grown = candidates.map(({ node, token, total }) => ({
        id: 0, parent: node.id, token, total, depth: t + 1, fate: token === eos || t + 1 === longest ? "over" : "dropped",
      }));
      for (const node of grown) node.id = nodes.push(node) - 1;
      for (const node of grown.slice(0, k).filter(({ fate }) => fate === "over")) {
        const score = node.total / penalty(t + 1);
        if (score > bestScore) [best, bestScore] = [node, score];
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
