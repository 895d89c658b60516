/**
 * The mock's language: 256 made-up words, all of one width in bytes.
 *
 * One width means that an event's size is known before its token is, and that a token is put into a prepared event by
 * writing the same few bytes again.
 */

/** Bytes of every token, the leading space included. */
export const TOKEN_BYTES = 5;

const FIRST = "bdfgklmn";
const SECOND = "prstvwyz";
const VOWELS = "aeio";

/** All tokens, one behind the other: token `i` is at `i * TOKEN_BYTES`. ASCII without anything JSON would escape. */
export const VOCABULARY: Uint8Array = buildVocabulary();

function buildVocabulary(): Uint8Array {
  const bytes = new Uint8Array(256 * TOKEN_BYTES);
  for (let i = 0; i < 256; i++) {
    const word = ` ${FIRST[i & 7]}${VOWELS[(i >> 3) & 3]}${SECOND[(i >> 5) & 7]}${
      VOWELS[(i ^ (i >> 4)) & 3]
    }`;
    for (let at = 0; at < TOKEN_BYTES; at++) bytes[i * TOKEN_BYTES + at] = word.charCodeAt(at);
  }
  return bytes;
}

/** The state after `state` of a xorshift generator; its top byte is the next token. Never 0 for a state that is not. */
export function nextState(state: number): number {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return state;
}

/** Writes the token that `state` names to `bytes[at, at + TOKEN_BYTES)`. */
export function writeToken(bytes: Uint8Array, at: number, state: number): void {
  const token = (state >>> 24) * TOKEN_BYTES;
  bytes[at] = VOCABULARY[token]!;
  bytes[at + 1] = VOCABULARY[token + 1]!;
  bytes[at + 2] = VOCABULARY[token + 2]!;
  bytes[at + 3] = VOCABULARY[token + 3]!;
  bytes[at + 4] = VOCABULARY[token + 4]!;
}

/** Where a 32-bit FNV-1a hash starts. */
const FNV_OFFSET = 0x811c9dc5;

/** 32-bit FNV-1a over UTF-16 code units, continuing from `hash`. */
export function hashText(text: string, hash = FNV_OFFSET): number {
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}
