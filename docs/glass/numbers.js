// Numbers in English words, as the course's corpus writes them: 234,567 → "two hundred and thirty-four thousand, …".

const small = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen " +
  "seventeen eighteen nineteen").split(" ");
const tens = "- - twenty thirty forty fifty sixty seventy eighty ninety".split(" ");

/** A whole number from 0 to 999,999 in words. */
export function words(n) {
  if (n < 20) return small[n];
  if (n < 100) return tens[Math.floor(n / 10)] + (n % 10 ? `-${small[n % 10]}` : "");
  const [unit, name] = n < 1000 ? [100, "hundred"] : [1000, "thousand"];
  const rest = n % unit, head = `${words(Math.floor(n / unit))} ${name}`;
  if (!rest) return head;
  return head + (unit === 100 || rest < 100 ? " and " : ", ") + words(rest);
}

/** What the reader typed as a sentence: digits become words, words stay. */
export function sentence(text) {
  const digits = text.trim().replace(/[,.\s_](?=\d)/g, "");
  return /^\d{1,6}$/.test(digits) ? words(Number(digits)) : text.trim().toLowerCase();
}
