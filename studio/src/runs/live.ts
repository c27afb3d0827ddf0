/** The live output of running steps, which is not in the journal. */

import type { Change } from "./timeline";

/** A piece, as the server sends it. */
export interface Piece {
  n: number;
  name: string;
  position: number;
  kind: string;
  text: string;
}

/** All output of one running attempt. */
export interface Voice {
  n: number;
  name: string;
  said: Readonly<Record<string, string>>;
}

export const NOBODY: readonly Voice[] = [];

/** Add output. At position 0 an attempt starts over. The beginning of very long output is dropped. */
export function hear(voices: readonly Voice[], { n, name, position, kind, text }: Piece): readonly Voice[] {
  const known = position === 0 ? undefined : voices.find((voice) => voice.n === n);
  const before = known?.said[kind] ?? (known === undefined && position > 0 ? "…" : "");
  const voice = { n, name, said: { ...known?.said, [kind]: before + text } };
  return [...voices.filter((each) => each.n !== n), voice].sort((one, other) => one.n - other.n);
}

/** Discard the output of an attempt that has ended. */
export function fallSilent(
  voices: readonly Voice[],
  n: number | undefined,
  { ended_at, attempt }: Change,
): readonly Voice[] {
  const hasEnded = ended_at !== undefined || attempt !== undefined;
  return hasEnded ? voices.filter((voice) => voice.n !== n) : voices;
}
