/** The link from a waiting chunk to its question. */

import { Link } from "@tanstack/react-router";
import { type Facts, waitWords } from "./facts";

export function Waiting({ facts, runId }: { facts: Facts; runId: string }) {
  const { waiting } = facts;
  const [id] = waiting;
  if (id === undefined) return null;
  const said = waitWords(facts);
  if (waiting.length === 1) {
    return (
      <Link to="/inbox/$id" params={{ id }}>
        {said}
      </Link>
    );
  }
  return (
    <Link to="/inbox" search={{ view: "all", run: runId } as never}>
      {said}
    </Link>
  );
}
