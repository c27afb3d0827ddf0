/** What running steps have said so far, of which no journal tells. */

import type { Entry } from "./timeline";

/** A piece, as the server sends it. */
export interface Piece {
  n: number;
  name: string;
  position: number;
  kind: string;
  text: string;
}

/** All that one running attempt has said. */
export interface Voice {
  n: number;
  name: string;
  said: Readonly<Record<string, string>>;
}

export const NOBODY: readonly Voice[] = [];

const ENDS = new Set(["completed", "attempt_failed"]);

/** Add what was said; at position 0 an attempt begins anew, and the beginning of what is very long is gone. */
export function hear(voices: readonly Voice[], { n, name, position, kind, text }: Piece): readonly Voice[] {
  const known = position === 0 ? undefined : voices.find((voice) => voice.n === n);
  const before = known?.said[kind] ?? (known === undefined && position > 0 ? "…" : "");
  const voice = { n, name, said: { ...known?.said, [kind]: before + text } };
  return [...voices.filter((each) => each.n !== n), voice].sort((one, other) => one.n - other.n);
}

/** Forget what an attempt said that has ended. */
export function fallSilent(voices: readonly Voice[], { kind, n }: Entry): readonly Voice[] {
  return ENDS.has(kind) ? voices.filter((voice) => voice.n !== n) : voices;
}
