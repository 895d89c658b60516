/** Payloads that a receiver can check without having been told them. */

/** Fills `bytes` with what belongs to a sequence number. */
export function fillPattern(bytes: Uint8Array, sequence: number): void {
  let state = (sequence * 2_654_435_761 + 1) >>> 0;
  for (let i = 0; i < bytes.length; i++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes[i] = state >>> 24;
  }
}

/** Whether `bytes` is exactly that. */
export function matchesPattern(bytes: Uint8Array, sequence: number): boolean {
  let state = (sequence * 2_654_435_761 + 1) >>> 0;
  for (let i = 0; i < bytes.length; i++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    if (bytes[i] !== state >>> 24) return false;
  }
  return true;
}
