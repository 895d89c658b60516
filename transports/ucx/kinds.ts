/** Active-message ids: `AM_ID_BASE + kind`. Kinds 0 to 4 are the frame types, 5 and 6 the health probe. */

/** "VE"; a peer with another base speaks something else. */
export const AM_ID_BASE = 0x5645;
/** Kinds beyond the frame types. */
export const Kind = Object.freeze({ ping: 5, pong: 6 });
/** Number of kinds. */
export const KINDS = 7;
