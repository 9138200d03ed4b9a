// Byte-pair encoding over bytes: the Tokenizer of notebook 10_data.

const words = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;

/** Each byte has a letter of its own: printable ones themselves, the others from 256 on. */
function alphabet() {
  const itself = (b) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
  let next = 256;
  return Array.from({ length: 256 }, (_, b) => String.fromCharCode(itself(b) ? b : next++));
}

export class Tokenizer {
  constructor({ vocabulary, merges }) {
    this.letters = alphabet();
    this.bytes = new Map(this.letters.map((letter, b) => [letter, b]));
    this.vocabulary = vocabulary;
    this.ids = new Map(vocabulary.map((piece, id) => [piece, id]));
    this.ranks = new Map(merges.map(([a, b], rank) => [`${a} ${b}`, rank]));
  }

  /** Ids of a text, without begin or end. */
  encode(text) {
    return [...text.normalize("NFC").matchAll(words)].flatMap(([word]) => {
      let pieces = Array.from(new TextEncoder().encode(word), (b) => this.letters[b]);
      for (;;) {
        const ranks = pieces.slice(1).map((piece, i) => this.ranks.get(`${pieces[i]} ${piece}`) ?? Infinity);
        const best = Math.min(...ranks);
        if (best === Infinity) return pieces.map((piece) => this.ids.get(piece));
        const merged = [];
        for (let i = 0; i < pieces.length; i++) {
          if (ranks[i] === best) merged.push(pieces[i] + pieces[++i]);
          else merged.push(pieces[i]);
        }
        pieces = merged;
      }
    });
  }

  /** Text of ids; padding, begin and end are left out. */
  decode(ids) {
    const bytes = ids.filter((id) => id > 2).flatMap((id) => [...this.vocabulary[id]].map((letter) => this.bytes.get(letter)));
    return new TextDecoder().decode(new Uint8Array(bytes));
  }

  /** One id as a label. */
  piece(id) {
    return id > 2 ? this.decode([id]) : ["<pad>", "<bos>", "<eos>"][id];
  }
}
