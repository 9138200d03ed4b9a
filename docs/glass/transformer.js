// The whole Transformer of the course in plain JavaScript. A token is a row of d numbers, and nothing is hidden in a library:
// what an attention computes on the way (queries, keys, values, weights) comes back with what it brings.

const dot = (a, b) => {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
};
const plus = (a, b) => a.map((x, i) => x + b[i]);
const relu = (row) => row.map((x) => Math.max(0, x));

/** W x + b, where W holds one row of numbers for each number of the result. */
function linear(x, { weight, bias }) {
  const out = new Float32Array(weight.length);
  for (let i = 0; i < out.length; i++) out[i] = dot(weight[i], x) + (bias ? bias[i] : 0);
  return out;
}

/** (x − mean) / √(variance + ε), then a scale and a shift for each coordinate (05_encoder). */
function norm(x, { weight, bias }) {
  const mean = x.reduce((a, b) => a + b, 0) / x.length;
  const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
  return x.map((value, i) => ((value - mean) / Math.sqrt(variance + 1e-5)) * weight[i] + bias[i]);
}

function softmax(scores) {
  const largest = Math.max(...scores), powers = scores.map((score) => Math.exp(score - largest));
  const sum = powers.reduce((a, b) => a + b, 0);
  return Float32Array.from(powers, (power) => power / sum);
}

/** Positions as clock hands (02_positional_encoding): sine and cosine in turn, slower and slower. */
function position(t, d) {
  return Float32Array.from({ length: d }, (_, i) => {
    const angle = t / 10000 ** ((i - (i % 2)) / d);
    return i % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}

export class Transformer {
  /** `weights`: name → rows of a matrix, or one row for a bias or a norm, as in PyTorch's state_dict. */
  constructor(weights, { layers, heads, d }) {
    const positions = Array.from({ length: 64 }, (_, t) => position(t, d));
    Object.assign(this, { weights, layers, heads, d, positions });
  }

  part(name) {
    return { weight: this.weights[`${name}.weight`], bias: this.weights[`${name}.bias`] };
  }

  embed(id, t) {
    return this.weights["embedding.weight"][id].map((x, i) => x * Math.sqrt(this.d) + this.positions[t][i]);
  }

  /** Query (0), key (1) or value (2) of a row, cut into heads. */
  project(name, x, which) {
    const from = which * this.d, cut = (whole) => whole.slice(from, from + this.d);
    const whole = linear(x, { weight: cut(this.weights[`${name}.in_proj_weight`]), bias: cut(this.weights[`${name}.in_proj_bias`]) });
    const size = this.d / this.heads;
    return Array.from({ length: this.heads }, (_, h) => whole.subarray(h * size, (h + 1) * size));
  }

  /** One row asks all keys it may see: softmax(q kᵀ / √d_k) v in every head, the heads side by side, then W_O. A gate of 0 silences a head. */
  attend(name, query, keys, values, visible, gates) {
    const size = this.d / this.heads, brought = new Float32Array(this.d), weights = [];
    for (let h = 0; h < this.heads; h++) {
      const scores = keys.map((key, j) => (visible[j] ? dot(query[h], key[h]) / Math.sqrt(size) : -Infinity));
      weights.push(softmax(scores));
      values.forEach((value, j) => value[h].forEach((x, i) => { brought[h * size + i] += gates[h] * weights[h][j] * x; }));
    }
    return { row: linear(brought, this.part(`${name}.out_proj`)), weights };
  }

  feedForward(name, x) {
    return linear(relu(linear(x, this.part(`${name}.linear1`))), this.part(`${name}.linear2`));
  }

  /** The encoder: the rows of the source, each informed by all that are not covered (id 0), and what its heads computed. */
  encode(src, gates) {
    const visible = src.map((id) => id !== 0), seen = [];
    let rows = src.map((id, t) => this.embed(id, t));
    for (let i = 0; i < this.layers; i++) {
      const name = `encoder.layers.${i}`, inputs = rows.map((x) => norm(x, this.part(`${name}.residual1.norm`)));
      const [queries, keys, values] = [0, 1, 2].map((which) => inputs.map((x) => this.project(`${name}.self_attention`, x, which)));
      const found = queries.map((query) => this.attend(`${name}.self_attention`, query, keys, values, visible, gates[0][i]));
      seen.push({ queries, keys, values, weights: found.map(({ weights }) => weights) });
      rows = rows.map((x, t) => plus(x, found[t].row));
      rows = rows.map((x) => plus(x, this.feedForward(`${name}.feed_forward`, norm(x, this.part(`${name}.residual2.norm`)))));
    }
    return { rows: rows.map((x) => norm(x, this.part("encoder.norm"))), visible, seen };
  }

  /** What a translation begins with: the keys and values of the source for each layer, and nothing written yet. */
  start(src, gates) {
    const { rows, visible, seen } = this.encode(src, gates);
    const source = Array.from({ length: this.layers }, (_, i) =>
      [1, 2].map((which) => rows.map((x) => this.project(`decoder.layers.${i}.cross_attention`, x, which))));
    return { gates, visible, seen, source, past: source.map(() => [[], []]), t: 0 };
  }

  /** The decoder reads one token: the state with its keys and values added, its row after each sublayer, and what its heads computed. */
  step(state, id) {
    const stages = [this.embed(id, state.t)], past = [], seen = [];
    for (let i = 0; i < this.layers; i++) {
      const name = `decoder.layers.${i}`, last = () => stages.at(-1);
      const own = [0, 1, 2].map((which) => this.project(`${name}.self_attention`, norm(last(), this.part(`${name}.residual1.norm`)), which));
      const [keys, values] = [1, 2].map((which) => [...state.past[i][which - 1], own[which]]);
      past.push([keys, values]);
      const self = this.attend(`${name}.self_attention`, own[0], keys, values, keys.map(() => true), state.gates[1][i]);
      stages.push(plus(last(), self.row));
      const query = this.project(`${name}.cross_attention`, norm(last(), this.part(`${name}.residual2.norm`)), 0);
      const cross = this.attend(`${name}.cross_attention`, query, ...state.source[i], state.visible, state.gates[2][i]);
      stages.push(plus(last(), cross.row));
      stages.push(plus(last(), this.feedForward(`${name}.feed_forward`, norm(last(), this.part(`${name}.residual3.norm`)))));
      seen.push({ decoder: { query: own[0], weights: self.weights }, cross: { query, weights: cross.weights } });
    }
    return { state: { ...state, past, t: state.t + 1 }, stages, seen };
  }

  /** A logit for each token of the vocabulary; the matrix is that of the embedding. */
  logits(row) {
    return linear(norm(row, this.part("decoder.norm")), { weight: this.weights["embedding.weight"] });
  }
}

/** The weights of a file of 16-bit numbers: `shapes` is a list of [name, shape] in the order of the file. */
export function unpack(buffer, shapes) {
  const halves = new Uint16Array(buffer);
  const numbers = Float32Array.from(halves, (half) => {
    const sign = half & 0x8000 ? -1 : 1, exponent = (half >> 10) & 31, fraction = half & 1023;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
  });
  const weights = {};
  let at = 0;
  for (const [name, [rows, columns]] of shapes) {
    const take = (n) => numbers.subarray(at, (at += n));
    weights[name] = columns ? Array.from({ length: rows }, () => take(columns)) : take(rows);
  }
  return weights;
}
