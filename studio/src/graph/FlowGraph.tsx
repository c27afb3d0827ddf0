/** The graph of a flow's execution, with its progress; also as a list. */

import { lazy, Suspense } from "react";
import { visible } from "../shell/visible";
import type { Voice } from "../runs/live";
import type { Item } from "../runs/timeline";
import { ChunkList } from "./ChunkList";
import { Counts } from "./counts";
import { drawn } from "./drawing";
import { factsOf } from "./facts";
import type { Graph } from "./graph";
import "./graph.css";

// Most runs are not executions of flows, and the drawing library is a third of all the code.
const Canvas = lazy(() => import("./Canvas"));

const MARGIN = 48;

interface Looks {
  runId: string;
  graph: Graph;
  items: readonly Item[];
  voices: readonly Voice[];
  hasSucceeded: boolean;
  hasFailed: boolean;
}

export function FlowGraph({ runId, graph, items, voices, hasSucceeded, hasFailed }: Looks) {
  const happened = factsOf(items, voices, hasFailed);
  const counts = new Counts(graph, happened, hasSucceeded);
  const drawing = drawn(graph, happened, counts);
  const [width, height] = [drawing.width + MARGIN, drawing.height + MARGIN];
  const room = {
    aspectRatio: `${width} / ${height}`,
    minHeight: `min(${height}px, 20rem)`,
    maxHeight: `min(${height}px, 65vh)`,
  };
  return (
    <section className="graph">
      <h3>Graph of {visible(graph.name)}</h3>
      <div className="graph-room" style={room}>
        <Suspense fallback={null}>
          <Canvas drawing={drawing} runId={runId} name={graph.name} />
        </Suspense>
      </div>
      <details>
        <summary>As a list</summary>
        <ChunkList graph={graph} happened={happened} counts={counts} runId={runId} />
      </details>
    </section>
  );
}
