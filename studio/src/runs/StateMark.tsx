/** A state, as a mark. */

export function StateMark({ state }: { state: string }) {
  return <span className={`state ${state}`}>{state.replaceAll("_", " ")}</span>;
}
