/** The drawing itself. Its library is loaded with the first graph. */

import {
  Controls,
  type Edge,
  Handle,
  MarkerType,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
  type ReactFlowInstance,
  type XYPosition,
} from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { type KeyboardEvent, useMemo, useState } from "react";
import { visible } from "../shell/visible";
import type { Drawn, DrawnEdge, DrawnNode } from "./drawing";
import { stateOf, words } from "./facts";
import { Waiting } from "./Waiting";

type Data = DrawnNode & { runId: string } & Record<string, unknown>;
type ShownNode = Node<Data, "shown">;

const STEP = 60;
const TOP = 24;
const MANY = 200;
const STUB = 6;
const LEGIBLE = 0.75;
const LONGEST_LABEL = 28;
const WHOLE = { padding: 0.06, maxZoom: 1 };
const NODES = { shown: Shown };
const NO_LINKS_AWAY = { hideAttribution: true };
const KEYS_OFF = {
  deleteKeyCode: null,
  selectionKeyCode: null,
  multiSelectionKeyCode: null,
  panActivationKeyCode: null,
};

interface CanvasProps {
  drawing: Drawn;
  runId: string;
  name: string;
}

export default function Canvas({ drawing, runId, name }: CanvasProps) {
  const [shown, setShown] = useState<ReactFlowInstance<ShownNode>>();
  const nodes = useMemo(() => drawing.nodes.map((node) => nodeOf(node, runId)), [drawing, runId]);
  const edges = useMemo(() => drawing.edges.map((edge) => edgeOf(edge, drawing)), [drawing]);
  const { live } = drawing;
  const begin = async (instance: ReactFlowInstance<ShownNode>) => {
    await instance.fitView(WHOLE);
    // A graph that is too large to be read as a whole opens at the execution's position.
    if (instance.getZoom() < LEGIBLE) {
      await (live.length > 0 ? showPlace(instance, live) : showTop(instance, drawing));
    }
    setShown(instance);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (shown === undefined || event.target !== event.currentTarget || event.ctrlKey || event.metaKey) return;
    if (move(shown, event.key)) event.preventDefault();
  };
  return (
    <>
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={NODES}
        onInit={(instance) => void begin(instance)}
        tabIndex={0}
        onKeyDown={onKeyDown}
        aria-busy={shown === undefined}
        aria-label={`Graph of ${name}: arrows move it, plus and minus zoom, 0 shows all of it`}
        nodesDraggable={false}
        nodesConnectable={false}
        nodesFocusable={false}
        edgesFocusable={false}
        elementsSelectable={false}
        zoomOnScroll={false}
        zoomOnDoubleClick={false}
        preventScrolling={false}
        disableKeyboardA11y
        onlyRenderVisibleElements={nodes.length > MANY}
        minZoom={0.1}
        maxZoom={2}
        proOptions={NO_LINKS_AWAY}
        {...KEYS_OFF}
      >
        <Controls showInteractive={false} fitViewOptions={WHOLE} />
      </ReactFlow>
      {live.length > 0 && (
        <button
          type="button"
          className="graph-place"
          onClick={() => shown !== undefined && void showPlace(shown, live)}
        >
          Where it is
        </button>
      )}
    </>
  );
}

async function showPlace(instance: ReactFlowInstance<ShownNode>, live: readonly string[]): Promise<void> {
  const nodes = live.map((id) => ({ id }));
  await instance.fitView({ nodes, maxZoom: 1, minZoom: LEGIBLE, padding: 0.2 });
}

/** Show the beginning of a graph that is shown as a whole. */
async function showTop(instance: ReactFlowInstance<ShownNode>, { nodes, width }: Drawn): Promise<void> {
  const { x, zoom } = instance.getViewport();
  const room = 2 * x + zoom * width;
  const larger = Math.min(1, Math.max(LEGIBLE, (0.95 * room) / width));
  const [first] = nodes;
  const isNarrow = first === undefined || larger * width <= room;
  const middle = isNarrow ? width / 2 : first.x + first.width / 2;
  await instance.setViewport({ x: room / 2 - larger * middle, y: TOP, zoom: larger });
}

/** Move the drawing by a key; returns whether the key does that. */
function move(instance: ReactFlowInstance<ShownNode>, key: string): boolean {
  const { x, y, zoom } = instance.getViewport();
  const moves: Record<string, () => Promise<boolean>> = {
    ArrowLeft: () => instance.setViewport({ x: x + STEP, y, zoom }),
    ArrowRight: () => instance.setViewport({ x: x - STEP, y, zoom }),
    ArrowUp: () => instance.setViewport({ x, y: y + STEP, zoom }),
    ArrowDown: () => instance.setViewport({ x, y: y - STEP, zoom }),
    "+": () => instance.zoomIn(),
    "-": () => instance.zoomOut(),
    "0": () => instance.fitView(WHOLE),
  };
  const made = moves[key];
  void made?.();
  return made !== undefined;
}

const HANDLES = [
  { id: "above", type: "target", position: Position.Top },
  { id: "from left", type: "target", position: Position.Left },
  { id: "from right", type: "target", position: Position.Right },
  { id: "below", type: "source", position: Position.Bottom },
  { id: "to left", type: "source", position: Position.Left },
  { id: "to right", type: "source", position: Position.Right },
] as const;

function spotOf(position: Position, { width, height }: { width: number; height: number }): XYPosition {
  const x = position === Position.Left ? 0 : position === Position.Right ? width : width / 2;
  const y = position === Position.Top ? 0 : position === Position.Bottom ? height : height / 2;
  return { x, y };
}

function nodeOf(node: DrawnNode, runId: string): ShownNode {
  const { id, x, y, width, height, depth, kind } = node;
  const size = { width, height };
  return {
    id,
    type: "shown",
    position: { x, y },
    data: { ...node, runId },
    ...size,
    measured: size,
    zIndex: kind === "group" ? depth : depth + 1,
    handles: HANDLES.map((handle) => ({ ...handle, ...spotOf(handle.position, size), width: 1, height: 1 })),
  };
}

function edgeOf({ id, from, to, label, isTaken, via }: DrawnEdge, { nodes }: Drawn): Edge {
  return {
    id,
    source: from,
    target: to,
    ...(label === undefined ? {} : { label: shortened(visible(label)) }),
    ...(via === undefined ? { sourceHandle: "below", targetHandle: "above" } : aside(from, to, via, nodes)),
    type: "smoothstep",
    className: `${isTaken ? "taken" : "open"}${via === undefined ? "" : " event"}`,
    markerEnd: { type: MarkerType.ArrowClosed, color: isTaken ? "var(--green)" : "var(--soft)" },
    zIndex: via !== undefined ? 0 : isTaken ? 51 : 50,
  };
}

/** From the side of a chunk to the side of the line that it begins, going up or down beside that line. */
function aside(from: string, to: string, via: number, nodes: readonly DrawnNode[]) {
  const source = nodes.find(({ id }) => id === from);
  const target = nodes.find(({ id }) => id === to);
  if (source === undefined || target === undefined) return {};
  const isRightward = via > source.x;
  const begin = isRightward ? source.x + source.width + STUB : source.x - STUB;
  const end = isRightward ? target.x - STUB : target.x + target.width + STUB;
  return {
    sourceHandle: isRightward ? "to right" : "to left",
    targetHandle: isRightward ? "from left" : "from right",
    pathOptions: { offset: STUB, stepPosition: (via - begin) / (end - begin || 1) },
  };
}

function shortened(label: string): string {
  return label.length <= LONGEST_LABEL ? label : `${label.slice(0, LONGEST_LABEL)}…`;
}

function Shown({ data }: NodeProps<ShownNode>) {
  const { kind, label, facts, note, isReached, runId } = data;
  const state = facts === undefined ? (isReached ? "reached" : "") : stateOf(facts);
  return (
    <div className={`node ${kind} ${state}`} title={visible(label)}>
      <span className="node-name">{visible(label)}</span>
      {note !== undefined && <span className="node-facts">{note}</span>}
      {facts !== undefined && facts.waiting.length > 0 && (
        <span className="node-facts">
          <Waiting facts={facts} runId={runId} />
        </span>
      )}
      {facts !== undefined && (
        <span className={facts.waiting.length === 0 ? "node-facts alone" : "node-facts"}>
          {words(facts).join(", ")}
        </span>
      )}
      {HANDLES.map((handle) => (
        <Handle key={handle.id} {...handle} isConnectable={false} />
      ))}
    </div>
  );
}
